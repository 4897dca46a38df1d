// Inputs for a settings class, from the description that the server reads off the class itself.
import { el, fill } from "./dom.js";

// Fields that stand on their own, away from the group that explains their name.
const LABELS = {
  model: "Model family",
  "model.base": "Base model",
  "prompts.per_step": "Prompts per step",
  "evaluation.prompts": "Held-out prompts",
  steps: "Training steps",
  "sampling.steps": "Denoising steps",
};
const words = (name) =>
  name
    .replaceAll("_", " ")
    .replace(/^./, (c) => c.toUpperCase())
    .replace(/\b(sde|ema|kl)\b/i, (short) => short.toUpperCase());

/** A form over one nested object. onchange() is called after each edit; the object is edited in place. */
export class Form {
  constructor(fields, config, onchange) {
    Object.assign(this, { fields, config, onchange, inputs: new Map() });
  }

  at(path) {
    return path.split(".").reduce((value, name) => value?.[name], this.config);
  }

  set(path, value) {
    const names = path.split(".");
    const last = names.pop();
    const group = names.reduce((inner, name) => inner[name], this.config);
    group[last] = value;
    this.onchange();
  }

  /** The description of the field at a path. */
  find(path) {
    let fields = this.fields;
    let found = null;
    let value = this.config;
    path.split(".").forEach((name) => {
      found = fields.find((field) => field.name === name);
      value = value?.[name];
      fields = (found?.kind === "variants" ? found.variants[value?.[found.tag]] : found?.fields) ?? [];
    });
    return found;
  }

  field(path, description = this.find(path)) {
    const build = {
      group: () => this.group(path, description),
      variants: () => this.variants(path, description),
      list: () => this.list(path, description),
    }[description.kind];
    return build ? build() : this.plain(path, description);
  }

  many(path, fields, except = []) {
    return fields
      .map((field) => [path ? path + "." + field.name : field.name, field])
      .filter(([full]) => !except.includes(full))
      .map(([full, field]) => this.field(full, field));
  }

  plain(path, description) {
    const { kind, choices } = description;
    const value = this.at(path);
    let input;
    if (kind === "choice")
      input = el(
        "select",
        {},
        choices.map((choice) => el("option", { value: choice, selected: choice === value }, choice)),
      );
    else if (kind === "switch") input = el("input", { type: "checkbox", checked: value });
    else
      input = el("input", {
        type: "text",
        inputmode: kind === "number" || kind === "integer" ? "decimal" : null,
        value: shown(value, kind),
        placeholder: description.optional ? "none" : null,
      });
    input.addEventListener(kind === "choice" || kind === "switch" ? "change" : "input", () =>
      this.set(path, kind === "switch" ? input.checked : read(input.value, description)),
    );
    if (!description.suggestions?.length) return this.labelled(path, description, input);
    return this.labelled(path, description, input, suggestions(path, description.suggestions, input));
  }

  labelled(path, description, input, ...more) {
    const id = "field-" + path.replaceAll(".", "-");
    input.id = id;
    input.setAttribute("aria-describedby", id + "-help");
    const problem = el("p.problem", { hidden: true, role: "alert" });
    const range = limits(description);
    const element = el(
      "div.field",
      { "data-kind": description.kind },
      el("label", { for: id }, LABELS[path] ?? words(description.name)),
      input,
      el("p.help", { id: id + "-help" }, [description.help, range].filter(Boolean).join(" · ")),
      problem,
      more,
    );
    this.inputs.set(path, { element, problem, input });
    return element;
  }

  group(path, description) {
    const on = this.at(path) !== null;
    const body = el("div.fields", {}, on ? this.many(path, description.fields) : null);
    if (!description.optional) return el("fieldset", {}, el("legend", {}, words(description.name)), body);
    const toggle = el("input", { type: "checkbox", checked: on });
    toggle.addEventListener("change", () => {
      this.set(path, toggle.checked ? structuredClone(description.start[""]) : null);
      fill(body, toggle.checked ? this.many(path, description.fields) : null);
    });
    return el("fieldset", {}, this.labelled(path, { ...description, kind: "switch" }, toggle), body);
  }

  variants(path, description, lead = false) {
    const { tag, variants, start, optional } = description;
    const value = this.at(path);
    const body = el("div.fields");
    const choice = el(
      "select",
      {},
      optional ? el("option", { value: "", selected: value === null }, "none") : null,
      Object.keys(variants).map((name) => el("option", { value: name, selected: value?.[tag] === name }, name)),
    );
    const show = () =>
      fill(
        body,
        choice.value
          ? this.many(
              path,
              variants[choice.value].filter((field) => field.name !== tag),
            )
          : null,
      );
    choice.addEventListener("change", () => {
      this.set(path, choice.value ? structuredClone(start[choice.value]) : null);
      show();
    });
    show();
    const picker = this.labelled(path, description, choice);
    return lead ? [picker, body] : el("fieldset", {}, picker, body);
  }

  list(path, description) {
    const { tag, variants, start } = description;
    const items = el("div.items");
    const show = () =>
      fill(
        items,
        this.at(path).map((item, i) =>
          el(
            "div.item",
            {},
            el("b", {}, item[tag]),
            el(
              "div.item-fields",
              {},
              this.many(
                `${path}.${i}`,
                variants[item[tag]].filter((field) => field.name !== tag),
              ),
            ),
            this.at(path).length > 1
              ? el(
                  "button.plain",
                  {
                    type: "button",
                    "aria-label": `Remove ${item[tag]}`,
                    onclick: () => (this.set(path, this.at(path).toSpliced(i, 1)), show()),
                  },
                  "Remove",
                )
              : null,
          ),
        ),
      );
    const names = Object.keys(variants);
    const adding = el(
      "select.adding",
      {
        "aria-label": "Add to " + (LABELS[path] ?? words(description.name)),
        onchange: () => {
          this.set(path, [...this.at(path), structuredClone(start[adding.value])]);
          adding.value = "";
          show();
        },
      },
      el("option", { value: "" }, "Add…"),
      names.map((name) => el("option", { value: name }, name)),
    );
    show();
    const host = el("div.list");
    host.append(items, ...(names.length > 1 ? [adding] : []));
    return this.labelled(path, description, host);
  }

  /** Puts each problem beside its field, or beside the nearest group of it. Returns those that belong to no field. */
  report(problems) {
    for (const { problem, input } of this.inputs.values()) {
      problem.hidden = true;
      input.removeAttribute("aria-invalid");
    }
    return problems.filter(({ field, text }) => {
      const named = /^([a-z_]+): /.exec(text)?.[1];
      const paths = named ? [field + "." + named, "method." + named, field] : [field];
      const place = paths.map((path) => this.inputs.get(path)).find(Boolean);
      if (!place) return true;
      place.problem.textContent = text;
      place.problem.hidden = false;
      place.input.setAttribute("aria-invalid", "true");
      place.element.closest("details")?.setAttribute("open", "");
      return false;
    });
  }
}

/** The values at hand as a list to pick from, and what the one that is written is. */
function suggestions(path, known, input) {
  const list = el(
    "datalist",
    { id: "known-" + path.replaceAll(".", "-") },
    known.map(({ value, label }) => el("option", { value, label })),
  );
  const told = el("p.help.suggested");
  const tell = () => (told.textContent = known.find(({ value }) => value === input.value.trim())?.label ?? "");
  input.setAttribute("list", list.id);
  input.addEventListener("input", tell);
  tell();
  return [list, told];
}

function shown(value, kind) {
  if (value === null || value === undefined) return "";
  if (kind === "numbers" || kind === "words") return value.join(", ");
  if (kind === "yaml") return JSON.stringify(value);
  return String(value);
}

// What cannot be read as the kind that is asked for is passed on as text: the server says what is wrong with it.
function read(text, { kind, optional }) {
  const number = (part) => (part.trim() !== "" && Number.isFinite(Number(part)) ? Number(part) : part);
  if (optional && text.trim() === "") return null;
  if (kind === "integer" || kind === "number") return number(text);
  if (kind === "numbers" || kind === "words") {
    const parts = text.split(/[,\s]+/).filter(Boolean);
    return kind === "words" ? parts : parts.map(number);
  }
  if (kind === "yaml") {
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  }
  return text;
}

function limits(description) {
  const [low, high] = [description.low, description.high].map((bound) =>
    bound >= 1e5 ? bound.toExponential(0).replace("e+", "e") : bound,
  );
  const { low_in, high_in } = description;
  const given = (bound) => bound !== null && bound !== undefined;
  if (given(low) && given(high)) return `${low_in ? "from" : "above"} ${low} ${high_in ? "to" : "to below"} ${high}`;
  if (given(low)) return `${low_in ? "at least" : "above"} ${low}`;
  return given(high) ? `${high_in ? "at most" : "below"} ${high}` : "";
}
