// What the votes of one review set say: the models, how far the votes can be trusted, how the rewards compare.
import { asked, get, page, remember } from "./api.js";
import { Chart } from "./charts.js";
import { card, el, fill, headRow, oneAtATime } from "./dom.js";
import { optimisationFigure, ratingFigure } from "./figures.js";
import { number, percent } from "./format.js";
import { rewardCards } from "./rewardagreement.js";
import { trustCards } from "./trust.js";
import { VotesOut } from "./votesout.js";

const REFRESH = 10_000; // ms: votes come in while people judge

export async function mount(element) {
  const sets = await get("review-sets");
  const id = asked("set") ?? sets.find((set) => set.votes)?.id ?? sets[0]?.id;
  if (!id)
    return fill(element, nothing("No review set yet", "People judge pairs of samples; their votes are counted here."));
  await new Leaderboard(element, id, sets).load();
}

function nothing(title, text) {
  const way = el("a.button.primary", { href: page("reviews") }, "Review sets");
  return el("div.sheet", {}, el("section.card.empty", {}, el("h2", {}, title), el("p", {}, text), way));
}

class Leaderboard {
  constructor(element, id, sets) {
    Object.assign(this, { id, aspect: asked("aspect") ?? "overall" });
    this.load = oneAtATime(() => this.fetch());
    const picker = el(
      "select",
      { "aria-label": "Review set", onchange: () => location.assign(page("leaderboard", { set: picker.value })) },
      sets.map((set) => el("option", { value: set.id, selected: set.id === id }, set.name)),
    );
    this.aspects = el("select", { "aria-label": "Aspect", onchange: () => this.choose(this.aspects.value) });
    this.aspectLabel = el("label", {}, "Aspect", this.aspects);
    this.body = el("div.stack.wide");
    this.out = new VotesOut(id);
    fill(
      element,
      el(
        "div.sheet",
        {},
        el(
          "div.row.page-head",
          {},
          el("h1", {}, "Leaderboard"),
          el(
            "div.row.right-side",
            {},
            el("label", {}, "Review set", picker),
            this.aspectLabel,
            el("a.button", { href: page("reviews", { set: id }) }, "Reviewers"),
          ),
        ),
        this.body,
        this.out.element,
      ),
    );
    const timer = setInterval(() => (element.isConnected ? this.load() : clearInterval(timer)), REFRESH);
  }

  choose(aspect) {
    this.aspect = aspect;
    remember({ aspect: aspect === "overall" ? null : aspect });
    fill(this.body);
    this.load();
  }

  async fetch() {
    const [set, standing] = await Promise.all([
      get("review-sets/" + this.id),
      get(`review-sets/${this.id}/leaderboard`, { aspect: this.aspect }),
    ]);
    const aspects = ["overall", ...(set.settings.aspects ?? []).filter((one) => one !== "overall")];
    this.aspectLabel.hidden = aspects.length < 2;
    fill(
      this.aspects,
      aspects.map((one) => el("option", { value: one, selected: one === this.aspect }, one)),
    );
    // Charts keep their zoom until a further vote has come, and pictures that are looked at are not taken away.
    const seen = JSON.stringify(standing);
    if (seen === this.seen || this.body.querySelector("details[open]")) return;
    this.seen = seen;
    this.out.show(standing);
    fill(this.body, standing.votes ? this.cards(set, standing) : this.unjudged());
  }

  unjudged() {
    return el(
      "section.card.empty",
      {},
      el("h2", {}, "No vote yet"),
      el("p", {}, "Ratings appear with the first votes. Give reviewers their links."),
      el("a.button.primary", { href: page("reviews", { set: this.id }) }, "Reviewers and links"),
    );
  }

  cards(set, standing) {
    return [
      standing.warnings.length ? warnings(standing.warnings) : null,
      standing.of_one_model === standing.votes ? null : ratings(standing),
      optimisation(standing),
      trustCards(standing),
      rewardCards(this.id, standing),
    ];
  }
}

const warnings = (told) =>
  el(
    "ul.note.warn",
    { "aria-label": "Warnings" },
    told.map((warning) => el("li", {}, warning)),
  );

function ratings(standing) {
  const rated = standing.models.filter((model) => model.rating);
  const chart = new Chart(74 + 40 * rated.length, "Rating of each model with its interval");
  if (rated.length) chart.draw(() => ratingFigure(rated, standing.base));
  const apart = standing.of_one_model
    ? ` ${standing.of_one_model} of them compare two samples of one model and rate none.`
    : "";
  const note = `${standing.votes} votes on ${standing.prompts} prompts.${apart} Bradley-Terry, ties as half wins, the base at 1000; intervals of 95 % from resampled prompts. No rank stands where intervals overlap.`;
  return card(
    "Ratings",
    el(
      "div",
      {},
      rated.length ? chart.element : null,
      el("div.scroll", {}, ratingTable(standing)),
      el("p.foot.quiet.small.after", {}, note),
    ),
  );
}

const HEADS = ["Rank", "Model", "Rating", "Win rate", "Against base", "Won, even, lost", "Votes"];

function ratingTable({ models, base }) {
  return el(
    "table.standing",
    {},
    headRow(HEADS),
    el(
      "tbody",
      {},
      models.map((model) =>
        el(
          "tr",
          {},
          el("td", {}, rank(model)),
          el(
            "th",
            { scope: "row" },
            source(model),
            model.key === base && model.label !== "base" ? el("span.quiet", {}, " base") : null,
          ),
          el("td", {}, model.rating ? estimate(model.rating, (v) => number(v, 0)) : "–"),
          el("td", {}, share(model.win_rate)),
          el("td", {}, share(model.over_base)),
          el("td", {}, outcomes(model.outcomes)),
          el("td", {}, String(votes(model.outcomes))),
        ),
      ),
    ),
  );
}

function rank({ rank, rank_best, rank_worst }) {
  if (rank !== null) return el("b", {}, String(rank));
  if (rank_best === null) return "–";
  return el("span.quiet", { title: "The intervals overlap: the rank is not known" }, `${rank_best} to ${rank_worst}`);
}

function source(model) {
  return model.run ? el("a", { href: page("run", { id: model.run }) }, model.label) : model.label;
}

/** A figure and its interval; nothing known is a dash. */
export function estimate(found, words) {
  return [el("b", {}, words(found.value)), el("span.interval", {}, `${words(found.low)} to ${words(found.high)}`)];
}

export function share(found) {
  if (!found) return el("span.quiet", {}, "–");
  return [el("b", {}, percent(found.value, 0)), el("span.interval", {}, range(found))];
}

const range = ({ low, high }) => `${number(100 * low, 0)} to ${number(100 * high, 0)}`;
const votes = ({ wins, losses, ties, both_bad }) => wins + losses + ties + both_bad;

function outcomes(found) {
  const all = votes(found) || 1;
  const even = found.ties + found.both_bad;
  const part = (count, kind) => el("i", { class: kind, style: { width: (100 * count) / all + "%" } });
  return el(
    "div.outcomes",
    { title: `${found.wins} won, ${found.ties} ties, ${found.both_bad} both bad, ${found.losses} lost` },
    el("div.outcome-bar", {}, part(found.wins, "won"), part(even, "even"), part(found.losses, "lost")),
    el("span.small.quiet", {}, `${found.wins} · ${even} · ${found.losses}`),
  );
}

/** Reward and human win rate over the steps of each run that has two or more of them in the set. */
function optimisation(standing) {
  const runs = [...new Set(standing.models.map((model) => model.run).filter(Boolean))];
  return runs.flatMap((run) => {
    const points = standing.models
      .filter((model) => model.run === run || model.key === standing.base)
      .filter((model) => model.step !== null && (model.over_base || model.key === standing.base))
      .toSorted((a, b) => a.step - b.step);
    if (points.length < 2) return [];
    const chart = new Chart(300, "Reward and win rate against the base, by training step");
    chart.draw(() => optimisationFigure(points, standing.base));
    return card(
      "Reward and people, by training step",
      el(
        "div",
        {},
        chart.element,
        el(
          "p.foot.quiet.small",
          {},
          "Rewards that rise while people's win rate falls are the sign of over-optimisation.",
        ),
      ),
    );
  });
}
