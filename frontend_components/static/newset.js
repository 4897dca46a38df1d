// The form of a review set: what is compared, what is asked, and how pairs are handed out.
import { get, post } from "./api.js";
import { card, el, fill } from "./dom.js";
import { Models } from "./models.js";
import { PromptChoice } from "./promptchoice.js";

const ASPECTS = [
  ["alignment", "Fits the prompt"],
  ["quality", "Quality"],
  ["motion", "Motion"],
];

/** prefill: {kind, run, left, right, only}. made(id) follows the creation. */
export async function newSet(prefill, made, dropped) {
  const runs = await get("runs", { limit: 100 });
  const models = new Models(runs, prefill);
  const name = text("Name", models.name());
  name.addEventListener("input", () => (name.touched = true));
  const prompts = new PromptChoice(models, prefill.only);
  const aspects = ASPECTS.map(([value, label]) => chip(value, label));
  const repeats = select(
    [
      ["0.05", "5 % of the pairs"],
      ["0.1", "10 % of the pairs"],
      ["0", "none"],
    ],
    "0.05",
  );
  const order = select(
    [
      ["", "every pair equally often"],
      ["active", "pairs that tell most first"],
    ],
    "",
  );
  const quota = el("input", {
    type: "text",
    inputmode: "numeric",
    placeholder: "all",
    "aria-label": "Pairs a reviewer",
  });
  models.onchange = () => {
    if (!name.touched) name.value = models.name();
    prompts.offer();
    // Pairs of one model tell nothing of ratings, so that none tells more than another.
    order.disabled = models.seeds;
    if (models.seeds) order.value = "";
  };
  models.onchange();
  const seed = el("input", { type: "text", inputmode: "numeric", value: "0", "aria-label": "Seed" });
  const problem = el("p.note.bad", { role: "alert", hidden: true });
  const create = el("button.primary", { type: "submit" }, "Create");

  const submit = async (event) => {
    event.preventDefault();
    create.disabled = true;
    try {
      const { id } = await post("review-sets", {
        name: name.value.trim(),
        source: models.source(...(await prompts.read())),
        aspects: aspects.filter((one) => one.getAttribute("aria-pressed") === "true").map((one) => one.value),
        repeats: Number(repeats.value),
        active: order.value === "active",
        quota: whole("Pairs a reviewer", quota.value, null),
        seed: whole("Seed", seed.value, 0),
      });
      made(id);
    } catch (refused) {
      problem.hidden = false;
      problem.textContent = explain(refused);
      create.disabled = false;
    }
  };
  return card(
    "New review set",
    el(
      "form.body.set-form",
      { onsubmit: submit },
      field("Name", name),
      field("What is compared", models.element),
      prompts.element,
      field("What is asked", el("div.row", {}, el("span.quiet", {}, "Which one is better overall, and:"), aspects)),
      el(
        "div.fields.four",
        {},
        field("Shown twice", repeats, "Measures how far reviewers agree with themselves."),
        field("Order", order, "With many models, the second needs fewer votes."),
        field("Pairs a reviewer", quota, "A reviewer may get fewer than all."),
        field("Seed", seed, "Of the order and of the sides."),
      ),
      problem,
      el("div.row", {}, create, el("button", { type: "button", onclick: dropped }, "Cancel")),
    ),
  );
}

function chip(value, label) {
  const turn = () => made.setAttribute("aria-pressed", String(made.getAttribute("aria-pressed") !== "true"));
  const made = el("button", { type: "button", value, "aria-pressed": "false", onclick: turn }, label);
  return made;
}

/** What is wrong, in words: the fields that the server names, or its sentence. */
export function explain(refused) {
  const detail = refused.body?.detail;
  if (!Array.isArray(detail)) return refused.message;
  return detail
    .map((one) => `${(one.loc ?? [one.field]).filter((p) => p !== "body").join(".")}: ${one.msg ?? one.text}`)
    .join(" ");
}

export function whole(what, written, otherwise) {
  if (written.trim() === "") return otherwise;
  if (!/^\d+$/.test(written.trim())) throw new Error(`${what}: ${written} is not a whole number`);
  return Number(written);
}

export function field(label, control, help = "") {
  return el("div.field", {}, el("label", {}, label), control, help ? el("span.help", {}, help) : null);
}

export function text(label, value = "") {
  const input = el("input", { type: "text", "aria-label": label, maxlength: 200 });
  input.value = value;
  return input;
}

export function select(options, chosen) {
  return fill(
    el("select"),
    options.map(([value, label]) => el("option", { value, selected: value === chosen }, label)),
  );
}
