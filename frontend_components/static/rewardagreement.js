// How well each reward agrees with people, and the pairs where it does not.
import { get, media } from "./api.js";
import { Chart } from "./charts.js";
import { card, el, fill, headRow } from "./dom.js";
import { calibrationFigure } from "./figures.js";
import { count, number } from "./format.js";
import { share } from "./leaderboard.js";

const SHOWN = 6; // disagreements of a reward, of the largest gaps

export function rewardCards(set, { rewards }) {
  if (!rewards.length) return [];
  const chart = new Chart(260, "Agreement with people by the gap between scores");
  chart.draw(() => calibrationFigure(rewards));
  return [
    card(
      "How well rewards agree with people",
      el(
        "div.agreement",
        {},
        el("div.scroll", {}, rewardTable(rewards)),
        el(
          "div",
          {},
          chart.element,
          el(
            "p.foot.quiet.small",
            {},
            "A reward that can be trusted agrees more, the larger the gap between its two scores is.",
          ),
        ),
      ),
    ),
    rewards.filter((reward) => reward.disagreements.length).map((reward) => disagreements(set, reward)),
  ];
}

function rewardTable(rewards) {
  const heads = ["Reward", "Chose as people did", "Decided votes", "Pairs"];
  return el(
    "table.standing",
    {},
    headRow(heads),
    el(
      "tbody",
      {},
      rewards.map((one) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, one.reward),
          el("td", {}, share(one.accuracy)),
          el("td", {}, count(one.votes)),
          el("td", {}, count(one.pairs)),
        ),
      ),
    ),
    el("caption.quiet", {}, "Half would agree by chance. Equal scores count as half."),
  );
}

/** Pictures are fetched when the row is opened. */
function disagreements(set, reward) {
  const body = el("div.pairs");
  const title = `Where ${reward.reward} and people disagree`;
  const open = async (event) => {
    if (!event.target.open || body.childElementCount) return;
    const shown = reward.disagreements.slice(0, SHOWN);
    const pairs = await Promise.all(shown.map((one) => get(`review-sets/${set}/pairs/${one.pair}`)));
    fill(
      body,
      shown.map((one, i) => disagreement(pairs[i], one)),
    );
  };
  return el(
    "details.card.fold-card",
    { ontoggle: open },
    el("summary", {}, el("h2", {}, title), el("span.quiet.small", {}, `${reward.disagreements.length} pairs`)),
    body,
  );
}

function disagreement(pair, { score_a, score_b, votes_a, votes_b }) {
  const named = (label, seed) => (pair.seed_b === null ? label : `${label}, seed ${seed}`);
  const side = (sha, label, score, votes) =>
    el(
      "span.side",
      {},
      pair.kind === "video"
        ? el("video", { src: media(sha), muted: true, loop: true, controls: true, preload: "metadata" })
        : el("img", { src: media(sha), alt: "", loading: "lazy" }),
      el("span.small", {}, label),
      el("span.small.quiet", {}, `score ${number(score, 2)}, ${votes === 1 ? "1 vote" : votes + " votes"}`),
    );
  return el(
    "div.pair.disagreement",
    {},
    el(
      "span.both",
      {},
      side(pair.sha_a, named(pair.label_a, pair.seed), score_a, votes_a),
      side(pair.sha_b, named(pair.label_b, pair.seed_b), score_b, votes_b),
    ),
    el("span.pair-prompt", {}, pair.prompt),
  );
}
