// What training did to a sample: by strict correctness where its prompt has one, else by its first reward.
import { el } from "./dom.js";
import { number } from "./format.js";

const STRICT = [
  ["fixed", "Fixed by training", "good"],
  ["broken", "Broken by training", "bad"],
  ["right", "Right in both", "line-5"],
  ["wrong", "Wrong in both", "edge-strong"],
];
const REWARD = [
  ["better", "Better after training", "good"],
  ["worse", "Worse after training", "bad"],
  ["equal", "Equal in both", "line-5"],
];
const UNSCORED = ["unscored", "Not scored", "edge-strong"];
const known = (score) => score !== null && score !== undefined;
const isStrict = (scores) => "strict" in scores;
const firstReward = (scores) => Object.keys(scores).find((name) => !["strict", "quality"].includes(name));

/** [kind, label, tint] of each outcome that such samples can have. pairs: those of `outcome`. */
export function kindsOf(pairs) {
  const kinds = pairs.length && !pairs.some((one) => isStrict(one.before.scores)) ? REWARD : STRICT;
  return pairs.some((one) => one.kind === "unscored") ? [...kinds, UNSCORED] : kinds;
}

/** What happened between two scores of a sample, and its name in words. */
export function outcome(before, after) {
  const kind = isStrict(before) ? strictKind(before, after) : rewardKind(before, after);
  const [, label] = [...STRICT, ...REWARD, UNSCORED].find(([name]) => name === kind);
  return { kind, words: label.toLowerCase() };
}

function strictKind(before, after) {
  if (!known(before.strict) || !known(after.strict)) return "unscored";
  const [was, is] = [before.strict >= 0.5, after.strict >= 0.5];
  if (was) return is ? "right" : "broken";
  return is ? "fixed" : "wrong";
}

function rewardKind(before, after) {
  const name = firstReward(before);
  if (!known(before[name]) || !known(after[name])) return "unscored";
  return after[name] > before[name] ? "better" : after[name] < before[name] ? "worse" : "equal";
}

/** Right or wrong where there is such a thing, else the first reward. */
export function mark(scores) {
  if (isStrict(scores)) {
    if (!known(scores.strict)) return null;
    return scores.strict >= 0.5 ? el("b.badge.yes", {}, "right") : el("b.badge.no", {}, "wrong");
  }
  const name = firstReward(scores);
  return known(scores[name]) ? el("span.quiet.num", { title: name }, number(scores[name])) : null;
}
