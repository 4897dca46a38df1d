// One time for many videos: they play, stop and step together. A clock starts only when it is asked to.

export const FRAMES_PER_SECOND = 16; // of every stored video, as in backend/media.py
export const SPEEDS = [0.25, 0.5, 1];
const FAR = 0.25; // seconds: a video that is further off jumps; a nearer one runs a little faster or slower
const PULL = 2; // share of speed for each second that a video is off
const MOST = 0.2; // of its speed
const NEAR = "200px"; // around the window: videos there are loaded

/** Seconds by which one time is ahead of another, in a loop of this length. */
export function ahead(time, other, length) {
  const apart = time - other;
  return apart - length * Math.round(apart / length);
}

/** The middle of a frame, so that rounding never shows its neighbour. */
export const timeOf = (frame) => (frame + 0.5) / FRAMES_PER_SECOND;

export class Clock {
  /** changed() is called whenever time, playing, speed or the number of frames are others. */
  constructor(changed) {
    Object.assign(this, { changed, time: 0, started: false, playing: false, rate: 1, videos: [], seen: new Set() });
    this.observer = new IntersectionObserver((entries) => entries.forEach((one) => this.see(one)), { rootMargin: NEAR });
    this.tick = () => this.follow();
  }

  /** Drives these videos instead of those before. Only those in sight are loaded and played. */
  show(videos) {
    this.observer.disconnect();
    for (const video of this.seen) video.pause();
    this.seen.clear();
    this.videos = videos;
    for (const video of videos) {
      video.addEventListener("loadedmetadata", () => this.changed());
      this.observer.observe(video);
    }
    if (!videos.length) this.playing = false;
    this.changed();
  }

  see({ target, isIntersecting }) {
    if (isIntersecting) {
      this.seen.add(target);
      target.preload = "auto";
      if (this.started) this.bring(target);
    } else if (this.seen.delete(target)) target.pause();
  }

  /** A video comes to the time, and to playing or standing. */
  bring(video) {
    video.currentTime = this.time;
    video.playbackRate = this.rate;
    // A start that the next stop interrupts is rejected; that is no fault.
    if (this.playing) video.play().catch(() => {});
    else video.pause();
  }

  get frames() {
    const lengths = this.videos.map((video) => video.duration).filter(Number.isFinite);
    return lengths.length ? Math.max(1, Math.round(Math.max(...lengths) * FRAMES_PER_SECOND)) : 0;
  }

  get frame() {
    return Math.max(0, Math.min(this.frames - 1, Math.floor(this.time * FRAMES_PER_SECOND)));
  }

  play() {
    if (this.playing || !this.videos.length) return;
    Object.assign(this, { started: true, playing: true });
    for (const video of this.seen) this.bring(video);
    requestAnimationFrame(this.tick);
    this.changed();
  }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    this.seek(this.frame);
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  /** Shows one frame of every video. */
  seek(frame) {
    this.started = true;
    this.time = timeOf(Math.max(0, Math.min(this.frames - 1, frame)));
    for (const video of this.seen) this.bring(video);
    this.changed();
  }

  /** by: frames, forward or back. Stepping stops what plays. */
  step(by) {
    this.playing = false;
    this.seek(this.frame + by);
  }

  speed(rate) {
    this.rate = rate;
    for (const video of this.seen) video.playbackRate = rate;
    this.changed();
  }

  /** While playing: the first video in sight that can play leads, and the others keep up with it. */
  follow() {
    if (!this.playing) return;
    const ready = this.videos.filter((video) => this.seen.has(video) && !video.seeking && video.readyState >= 2);
    const [lead, ...others] = ready;
    if (lead) {
      this.time = lead.currentTime;
      lead.playbackRate = this.rate;
      for (const video of others) this.keepUp(video, lead);
    }
    this.changed();
    requestAnimationFrame(this.tick);
  }

  keepUp(video, lead) {
    const apart = ahead(video.currentTime, lead.currentTime, lead.duration);
    if (Math.abs(apart) > FAR) video.currentTime = lead.currentTime;
    else video.playbackRate = this.rate * (1 - Math.max(-MOST, Math.min(MOST, PULL * apart)));
  }
}
