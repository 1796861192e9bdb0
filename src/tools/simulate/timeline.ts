// The time line of a simulation. Time never steps back, as in a process. Long silences are noted, because nobody knows whether
// no call came or none was recorded.

/** A silence from this length on is reported. */
const GAP_US_MIN = 60_000_000;

/** Places calls in time. */
export class Timeline {
  firstUs = 0;
  lastUs = 0;
  calls = 0;
  /** Calls dated before an earlier line's call; they are decided at the time of that call. */
  late = 0;
  /** How far behind the worst of these calls was. */
  lateUsMax = 0;
  /** Silences of a minute or more. */
  gaps = 0;
  longestGapUs = 0;
  longestGapFromUs = 0;

  /** The time at which the call is decided. */
  place(atUs: number): number {
    if (this.calls++ === 0) {
      this.firstUs = atUs;
      this.lastUs = atUs;
      return atUs;
    }
    if (atUs < this.lastUs) {
      this.late++;
      this.lateUsMax = Math.max(this.lateUsMax, this.lastUs - atUs);
      return this.lastUs;
    }
    const silenceUs = atUs - this.lastUs;
    if (silenceUs >= GAP_US_MIN) this.gaps++;
    if (silenceUs > this.longestGapUs) {
      this.longestGapUs = silenceUs;
      this.longestGapFromUs = this.lastUs;
    }
    this.lastUs = atUs;
    return atUs;
  }
}
