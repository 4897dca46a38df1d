// The head of the run page: state, who and why, progress, time left, Stop and Resume.
import { page, post } from "./api.js";
import { el, fill } from "./dom.js";
import { ago, duration, live, since } from "./format.js";

export class Header {
  constructor(run) {
    this.element = el("section.card.run-head", { "aria-label": "State of the run" });
    this.onaction = () => {};
    this.connected = true;
    this.problem = "";
    this.show(run);
    const tick = setInterval(() => (this.element.isConnected ? this.tick() : clearInterval(tick)), 1000);
  }

  show(run) {
    this.run = run;
    this.age = el("span.quiet.small");
    this.phase = el("span.quiet.small");
    this.share = el("i");
    this.count = el("b.num");
    this.left = el("span.quiet.small.right-side");
    const state = el("span", { class: "state " + run.state }, run.state);
    fill(
      this.element,
      el(
        "div.row",
        {},
        el("h1", {}, run.name),
        state,
        el("span.quiet.small", {}, this.since()),
        el("div.row.right-side", {}, this.buttons()),
      ),
      run.state_why
        ? el("p", { class: "note small" + (["failed", "lost"].includes(run.state) ? " bad" : "") }, run.state_why)
        : null,
      this.problem ? el("p.note.bad", { role: "alert" }, this.problem) : null,
      el(
        "div.run-progress",
        {},
        el("div.row", {}, el("span", {}, "step ", this.count, ` of ${run.total_steps}`), this.phase, this.left),
        el(
          "div.bar",
          {
            role: "progressbar",
            "aria-label": "Training steps",
            "aria-valuemin": 0,
            "aria-valuemax": run.total_steps,
            "aria-valuenow": run.step,
          },
          this.share,
        ),
      ),
      el(
        "div.row.small.quiet",
        {},
        [
          run.method,
          run.model,
          run.preset ? "preset " + run.preset : null,
          run.forwards_per_prompt ? run.forwards_per_prompt + " forwards a prompt" : null,
          run.worker ? "worker " + run.worker : null,
          run.attempt > 1 ? "attempt " + run.attempt : null,
        ]
          .filter(Boolean)
          .map((text) => el("span", {}, text)),
        el("span.right-side", {}, this.age),
      ),
    );
    this.tick();
  }

  since() {
    const { run } = this;
    const who = run.state_by ? ", by " + run.state_by : "";
    return `since ${new Date(run.state_since).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" })}${who}`;
  }

  buttons() {
    const { run } = this;
    const stop = ["queued", "starting", "running"].includes(run.state);
    const resume = ["paused", "stopped", "failed", "lost"].includes(run.state);
    return [
      el("a.button", { href: page("tree", { id: run.id }) }, "Tree"),
      el("a.button", { href: page("compare", { run: run.id }) }, "Compare"),
      el(
        "a.button",
        { href: page("", { clone: run.id }), title: "Opens the launch page with these settings" },
        "Clone",
      ),
      stop
        ? el(
            "button.danger",
            { onclick: () => this.act("stop"), title: "Saves a checkpoint after the current step, then leaves" },
            run.state === "queued" ? "Take out of the queue" : "Stop and save",
          )
        : null,
      run.state === "stopping" ? el("button", { disabled: true }, "Stopping: saving a checkpoint") : null,
      resume
        ? el(
            "button.primary",
            { onclick: () => this.act("resume"), title: "Goes on from the last checkpoint" },
            "Resume from checkpoint",
          )
        : null,
    ];
  }

  async act(what) {
    for (const button of this.element.querySelectorAll("button")) button.disabled = true;
    try {
      await post(`runs/${this.run.id}/${what}`);
      this.problem = "";
    } catch (error) {
      this.problem = error.message;
    }
    this.onaction();
  }

  heard() {
    this.run.heartbeat_at = new Date().toISOString();
  }

  step(change) {
    this.heard();
    Object.assign(this.run, { step: change.step, phase: "", last_reward: change.metrics["train/reward_mean"] });
    const seconds = change.metrics["time/step"];
    if (seconds) this.run.seconds_per_step ??= seconds;
    this.tick();
  }

  progress(change) {
    this.heard();
    Object.assign(this.run, { phase: change.phase, phase_done: change.done, phase_total: change.total });
    this.tick();
  }

  link(up) {
    this.connected = up;
    this.element.dataset.live = String(up);
    this.tick();
  }

  tick() {
    const { run } = this;
    this.count.textContent = String(run.step);
    this.share.style.width = run.total_steps ? (100 * run.step) / run.total_steps + "%" : "0";
    this.phase.textContent = live(run.state) && run.phase ? `${run.phase} ${run.phase_done} of ${run.phase_total}` : "";
    if (live(run.state) && run.seconds_per_step)
      this.left.textContent = `about ${duration(run.seconds_per_step * (run.total_steps - run.step))} left, ${run.seconds_per_step.toFixed(1)} s a step`;
    else if (run.started_at && run.ended_at)
      this.left.textContent = "ran for " + duration(since(run.started_at) - since(run.ended_at));
    this.age.textContent = !this.connected
      ? "connection lost, trying again"
      : run.heartbeat_at
        ? "last update " + ago(run.heartbeat_at)
        : run.state === "queued"
          ? "waiting for a worker"
          : "";
  }
}
