// How far the votes can be trusted: sides, repeats, agreement between reviewers, and each reviewer.
import { card, el, headRow } from "./dom.js";
import { number, percent } from "./format.js";
import { share } from "./leaderboard.js";

export function trustCards(standing) {
  return [
    card("How far these votes can be trusted", el("div.tiles", {}, tiles(standing))),
    card("Reviewers", el("div.scroll", {}, reviewerTable(standing.reviewers))),
  ];
}

function tiles({ sides, self_agreement: self, alpha, alpha_pairs, tie_share, both_bad_share }) {
  return [
    tile(
      "Left side won",
      share(sides.share),
      sides.p_value === null
        ? "No vote calls one side better yet."
        : `Of ${sides.decided} decided votes. Sides are drawn by a coin, so near 50 % is right; a count this uneven has a chance of ${number(sides.p_value, 3)}.`,
    ),
    tile(
      "Agreement with oneself",
      share(self.share),
      self.repeats
        ? `On ${self.repeats} pairs shown twice; ${percent(self.same_sides?.value, 0)} with sides as before, ${percent(self.flipped_sides?.value, 0)} with sides swapped.`
        : "No pair was judged twice by one reviewer yet.",
    ),
    tile(
      "Krippendorff's alpha",
      el("b", {}, number(alpha, 2)),
      alpha_pairs
        ? `On ${alpha_pairs} pairs that several reviewers judged. 1 is full agreement, 0 is chance.`
        : "No pair was judged by two reviewers yet.",
    ),
    tile(
      "Ties",
      el("b", {}, percent(tie_share, 0)),
      `Another ${percent(both_bad_share, 0)} said that both are bad. Many of either mean that models are hard to tell apart.`,
    ),
  ];
}

function tile(title, figure, note) {
  return el("div.tile", {}, el("h3", {}, title), el("div.tile-figure", {}, figure), el("p.quiet.small", {}, note));
}

function reviewerTable(reviewers) {
  const heads = ["Reviewer", "Votes", "Agrees with others", "Agrees with oneself", "Left side won", "Worth a look"];
  return el(
    "table.standing",
    {},
    headRow(heads),
    el(
      "tbody",
      {},
      reviewers.map((one) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, one.reviewer),
          el("td", {}, String(one.votes)),
          el("td", { title: `${one.shared_pairs} pairs that others judged too` }, percent(one.agreement, 0)),
          el("td", { title: `${one.self_agreement.repeats} repeats` }, share(one.self_agreement.share)),
          el("td", {}, share(one.sides.share)),
          el("td.reasons", {}, one.reasons.length ? one.reasons.join("; ") : el("span.quiet", {}, "–")),
        ),
      ),
    ),
  );
}
