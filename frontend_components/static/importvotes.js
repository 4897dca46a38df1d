// Votes from a file: of another Espalier, or in a form that other tools write.
import { upload } from "./api.js";
import { el } from "./dom.js";
import { field, select } from "./newset.js";
import { FORMATS } from "./votesout.js";

/** made(id) follows the import. */
export function importVotes(made) {
  const format = select(FORMATS, "native");
  const file = el("input", { type: "file", "aria-label": "File of votes", required: true });
  const problem = el("p.note.bad", { role: "alert", hidden: true });
  const button = el("button", { type: "submit" }, "Import");
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    problem.hidden = true;
    const form = new FormData();
    form.append("file", file.files[0]);
    form.append("format", format.value);
    try {
      const { id } = await upload("review-sets/import", form);
      made(id);
    } catch (refused) {
      problem.hidden = false;
      problem.textContent = refused.message;
    }
    button.disabled = false;
  };
  return el(
    "details.card.fold-card",
    {},
    el("summary", {}, el("h2", {}, "Import votes"), el("span.quiet.small", {}, "from a file, to read or to train on")),
    el(
      "form.row.body.add-reviewer",
      { onsubmit: submit },
      field("Format", format),
      field("File", file),
      button,
      problem,
    ),
  );
}
