// Answers on their way: each is kept on this device until the server has it, and sent again while it is out of reach.
import { post, Refused } from "./api.js";

const CLOSED =
  "Your last answer came after the close. It is kept on this device, and sent if you come back after a reopening.";
const WAITS = [300, 1000, 2000, 4000, 8000]; // ms between tries; the last one repeats

export class Outbox {
  /** onwait(true | false): an answer waits for the connection, or waits no more. */
  constructor(token, onwait) {
    Object.assign(this, { token, onwait, prefix: `espalier-vote-${token}-` });
  }

  /** Answers that an earlier page could not send. */
  kept() {
    return Object.keys(localStorage)
      .filter((key) => key.startsWith(this.prefix))
      .map((key) => JSON.parse(localStorage.getItem(key)));
  }

  /** Of two answers to one showing, as two open pages may give them, the first one stands. */
  keep(vote) {
    const key = this.prefix + vote.showing;
    const before = localStorage.getItem(key);
    if (before) return JSON.parse(before);
    localStorage.setItem(key, JSON.stringify(vote));
    return vote;
  }

  /** The desk after this vote, and why it was not counted, or null. Returns when the server has answered. */
  async send(vote) {
    const kept = this.keep(vote);
    const drop = () => localStorage.removeItem(this.prefix + vote.showing);
    try {
      const desk = await patiently(() => post(`review/${this.token}/votes`, kept), this.onwait);
      drop();
      return { desk, why: null };
    } catch (refused) {
      const desk = refused.body;
      if (refused.status === 409 && desk.closed) return { desk, why: CLOSED };
      drop();
      if (refused.status === 409) return { desk, why: "This pair was answered before. The earlier answer stands." };
      throw refused;
    }
  }
}

/** Tries until the server answers. A refusal is an answer and is thrown; being out of reach is not. */
export async function patiently(ask, onwait) {
  for (let tries = 0; ; tries++) {
    try {
      const answer = await ask();
      onwait(false);
      return answer;
    } catch (error) {
      if (error instanceof Refused && error.status < 500) {
        onwait(false);
        throw error;
      }
      onwait(true);
      await pause(WAITS[Math.min(tries, WAITS.length - 1)]);
    }
  }
}

/** Ends early when the browser says that it is online again. */
function pause(milliseconds) {
  return new Promise((over) => {
    const done = () => (clearTimeout(timer), removeEventListener("online", done), over());
    const timer = setTimeout(done, milliseconds);
    addEventListener("online", done);
  });
}

/** 128 random bits in hex. crypto.randomUUID is not there on plain http, where a lab's own network is. */
export function randomKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
