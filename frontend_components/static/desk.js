// The desk of one reviewer: a prompt, two pictures, a choice. Nothing here knows which model made which side.
import { asked, get, post } from "./api.js";
import { el, fill } from "./dom.js";
import { helpSheet } from "./deskhelp.js";
import { Outbox, patiently, randomKey } from "./outbox.js";
import { Pair } from "./pair.js";
import { keyed, Verdict } from "./verdict.js";

const KEYS = { ArrowLeft: "left", ArrowRight: "right", ArrowDown: "tie", b: "both_bad", s: "skip" };
const SETTLE = 200; // ms after a pair appears in which a key that was meant for the one before counts for nothing
const CLOSED = ["This review is closed", "Thank you. There is nothing to judge at this time."];
const RELOADS = [500, 1500, 4000]; // ms before a picture that did not load is asked for again
const PAN = 0.08;

export async function mount(element) {
  const token = asked("t");
  if (!token) return fill(element, message("This link is not complete.", "Ask for the link that was made for you."));
  const desk = new Desk(element, token);
  try {
    await desk.start();
  } catch (refused) {
    fill(element, refused.status === 404 ? message("This link is not known.", "Ask for a new one.") : trouble(refused));
  }
}

const message = (title, text) =>
  el("div.desk-message", { role: "alert" }, el("h1", {}, title), el("p.quiet", {}, text));
const trouble = (error) => message("The desk did not open.", error.message);

class Desk {
  constructor(element, token) {
    Object.assign(this, { element, token, busy: true, pair: null, ahead: null, waits: false });
    this.outbox = new Outbox(token, (waits) => this.wait(waits));
    this.bar = el("i");
    this.count = el("span", { "aria-live": "polite" });
    this.name = el("span.quiet.small");
    this.undoButton = keyed("Undo", "U", () => this.undo());
    this.skipButton = keyed("Skip", "S", () => this.answer("skip"));
    this.zoomButton = keyed("Zoom", "Z", () => this.pair.zoom(!this.pair.zoomed));
    this.help = helpSheet();
    this.prompt = el("h1.desk-prompt");
    this.stage = el("div.desk-stage");
    this.note = el("p.desk-note", { role: "status" });
    this.verdict = new Verdict((choice, aspect) => this.answer(choice, aspect));
    const theme = el("button.plain", {
      "aria-label": "Light or dark colours",
      onclick: () => window.espalierTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
    });
    theme.textContent = "◐";
    fill(
      element,
      el(
        "div.desk",
        {},
        el(
          "div.desk-head",
          {},
          el("div.desk-progress", {}, this.count, el("div.bar", {}, this.bar)),
          this.name,
          this.undoButton,
          this.skipButton,
          this.zoomButton,
          keyed("Help", "?", () => this.help.showModal()),
          theme,
        ),
        this.prompt,
        this.stage,
        this.note,
        this.verdict.element,
      ),
      this.help,
    );
    this.onkey = (event) => this.key(event);
    addEventListener("keydown", this.onkey);
  }

  async start() {
    this.say("Opening …");
    let desk = await this.fetch();
    let note = "";
    for (const vote of this.outbox.kept()) {
      try {
        const { desk: after, why } = await this.outbox.send(vote);
        desk = after;
        note = why ?? "An answer that had waited on this device has arrived.";
      } catch (refused) {
        note = `An answer that had waited on this device was not taken: ${refused.message}`;
      }
    }
    await this.show(desk, note);
  }

  fetch() {
    return patiently(
      () => get(`review/${this.token}`),
      (waits) => this.wait(waits),
    );
  }

  /** Puts the current pair of a desk on the table once both sides can be drawn, and begins to load the next one. */
  async show(desk, note = "") {
    this.busy = true;
    this.desk = desk;
    this.count.textContent = `${desk.done} of ${desk.total} judged`;
    this.bar.style.width = (desk.total ? (100 * desk.done) / desk.total : 0) + "%";
    this.name.textContent = desk.pseudonym;
    this.undoButton.disabled = !desk.can_undo;
    const pair = desk.current ? this.pairOf(desk.current) : null;
    const whole = pair && (await this.loaded(pair));
    this.pair?.leave();
    this.pair = pair;
    this.ahead = desk.next ? this.pairOf(desk.next) : null;
    this.say(note);
    this.zoomButton.hidden = this.skipButton.hidden = !pair;
    this.shownAt = performance.now();
    this.busy = false;
    if (!pair) return this.thank();
    this.prompt.textContent = pair.showing.prompt;
    if (!whole) return this.broken();
    pair.mark(null);
    pair.zoom(false, [0.5, 0.5]);
    fill(this.stage, pair.element);
    this.verdict.ask(desk.aspects);
    pair.play(true);
  }

  pairOf(showing) {
    return [this.ahead, this.pair].find((pair) => pair?.id === showing.id) ?? new Pair(showing);
  }

  /** Whether both sides can be drawn; a server that has just been started again gets a few tries. */
  async loaded(pair) {
    for (const wait of RELOADS) {
      try {
        await pair.ready;
        pair.whole = true;
        return true;
      } catch {
        this.say("A picture did not load. Trying again …");
        await new Promise((over) => setTimeout(over, wait));
        pair.load();
      }
    }
    return false;
  }

  /** A pair that cannot be seen can be loaded again or skipped, and not be judged. */
  broken() {
    const again = el("button", { onclick: () => this.show(this.desk) }, "Load it again");
    fill(this.stage, message("A picture did not load", "Try again in a while, or skip this pair."), again);
    this.verdict.clear();
  }

  thank() {
    this.prompt.textContent = "";
    fill(this.stage, this.desk.closed ? message(...CLOSED) : message("Thank you", thanks(this.desk)));
    this.verdict.clear();
    this.busy = false;
  }

  /** The answer to the last open aspect sends the vote; a skip answers them all. */
  answer(choice, aspect = this.verdict.open) {
    if (this.busy || !this.pair || (choice !== "skip" && !this.pair.whole)) return;
    if (performance.now() - this.shownAt < SETTLE) return;
    if (choice !== "skip" && !this.verdict.note(choice, aspect)) return;
    const { overall, ...aspects } = choice === "skip" ? { overall: "skip" } : this.verdict.answers;
    this.send({
      showing: this.pair.id,
      choice: overall,
      aspects,
      milliseconds: Math.round(performance.now() - this.shownAt),
      client_key: randomKey(),
    });
  }

  async send(vote) {
    this.busy = true;
    this.pair.mark(vote.choice);
    try {
      const { desk, why } = await this.outbox.send(vote);
      await this.show(desk, why ?? "");
    } catch (refused) {
      this.say(`This answer was not taken: ${refused.message}`);
      this.pair.mark(null);
      this.verdict.ask(this.desk.aspects);
      this.busy = false;
    }
  }

  /** Takes back the last answered aspect of this pair, or the last vote. */
  async undo() {
    if (this.busy) return;
    if (this.verdict.back() || !this.desk.can_undo) return;
    this.busy = true;
    try {
      const desk = await post(`review/${this.token}/undo`, { showing: this.pair?.id ?? null });
      await this.show(desk, desk.done < this.desk.done ? "Your last answer is taken back. Judge this pair again." : "");
    } catch {
      // Whether it was undone is not known here, so the desk is asked, which is safe to repeat.
      await this.show(await this.fetch());
    }
  }

  key(event) {
    if (!this.element.isConnected) return removeEventListener("keydown", this.onkey);
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const way = { ArrowLeft: [-PAN, 0], ArrowRight: [PAN, 0], ArrowUp: [0, -PAN], ArrowDown: [0, PAN] }[key];
    if (event.shiftKey && way) this.pair?.pan(...way);
    else if (KEYS[key]) this.answer(KEYS[key]);
    else if (key === "u") this.undo();
    else if (key === "z") this.pair?.zoom(!this.pair.zoomed);
    else if (key === "?") this.help.showModal();
    else if (key === " " && this.pair?.videos.length) this.pair.play(!this.pair.playing);
    else return;
    event.preventDefault();
  }

  wait(waits) {
    if (waits === this.waits) return;
    this.waits = waits;
    const kept = this.outbox.kept().length > 0;
    const told = kept ? "Your answer is kept on this device and is sent again until it arrives." : "Trying again …";
    this.say(waits ? "No connection. " + told : "");
  }

  say(text) {
    this.note.textContent = text;
    this.note.classList.toggle("bad", this.waits);
  }
}

function thanks({ done }) {
  return `You have judged ${done === 1 ? "one pair" : `all ${done} pairs`}. You may close this page.`;
}
