import { FlightWindow, type WindowBounds } from '../base/flight-window.ts';
import { planted } from '../base/planted.ts';

/** Charged to the in-flight window per message in addition to its entries, so that messages are bounded too. */
const MESSAGE_OVERHEAD_BYTES = 256;

/**
 * probe: the agreement point is unknown, one append at a time. replicate: it is known, appends are pipelined within the
 * in-flight window. snapshot: the peer needs compacted entries; nothing is sent until it has the snapshot.
 */
export type ProgressState = 'probe' | 'replicate' | 'snapshot';

/**
 * A peer that lost its log (see recovery.ts). asking: it waits for an operator and gets no entries. allowed: it is
 * being refilled. In both states it counts in no quorum.
 */
export type RecoveryState = 'none' | 'asking' | 'allowed';

/** A leader's knowledge of one peer; valid for one term. Invariant: match < next. */
export class Progress {
  readonly node: number;
  state: ProgressState = 'probe';
  /** The peer has everything up to here on disk. */
  match = 0;
  /** First index to send. */
  next: number;
  /** probe: an append is in flight; the next one follows an answer to it or to a heartbeat. */
  probeSent = false;
  /** probe: an append was sent and may still be in flight; further ones carry little. */
  probed = false;
  /** probe: bytes of the largest append sent, which the peer may be writing. */
  probedBytes = 0;
  /** Answered since the last quorum check; the answer may be old. */
  recentlyActive = false;
  /** At the last quorum check it had answered a request sent after the previous one. */
  wasActive = false;
  /** Latest round that the peer answered: proof that it accepted this leader at that time. */
  ackedRound = 0;
  /** Leader's round when `match` last grew; a refusal below match from a later round means a peer that lost entries. */
  matchRound = 0;
  /** Answers from rounds up to this one refer to a log that no longer exists. */
  floorRound = 0;
  /** `match` at the last heartbeat's answer; no progress since then with appends in flight means that one was lost. */
  heartbeatMatch = -1;
  /** Last commit index sent to the peer. */
  sentCommit = 0;
  refusesLead = false;
  /** See repair.ts: a snapshot for it is wanted or under way. */
  wantsState = false;
  /** The wishes in answers up to this round are over. */
  stateRound = 0;
  /** No longer in the configuration; still gets the log up to the entry that says so. */
  leaving = false;

  recovery: RecoveryState = 'none';
  /** Run of the peer that lost its log; kept after the recovery until the peer knows that it is over. */
  lostBoot = 0;
  /** Round to be confirmed by a quorum before `recoveryTarget` is fixed. */
  recoveryRound = 0;
  /** Match that ends the recovery; Infinity until known. */
  recoveryTarget = Infinity;

  /** Sent and unacknowledged appends; FIFO of the last index of each, from #head on. */
  readonly #window: FlightWindow;
  #inflightLast: number[] = [];
  #head = 0;

  /** Answers from before `round` belong to an earlier membership of the same node, perhaps with another disk. */
  constructor(node: number, next: number, round: number, window: WindowBounds) {
    this.node = node;
    this.next = next;
    this.floorRound = round;
    this.#window = new FlightWindow(window);
  }

  get inflightBytes(): number {
    return this.#window.bytes;
  }

  /** Bytes that the peer may be writing. */
  get writingBytes(): number {
    return Math.max(this.inflightBytes, this.probedBytes);
  }

  /** Whether it answered anything sent after this round. */
  answeredSince(round: number): boolean {
    return planted('stale-answers-count') ? this.recentlyActive : this.ackedRound > round;
  }

  /** Entry bytes that may be sent now without exceeding what the link carries in half an election timeout. */
  get room(): number {
    return this.#window.room;
  }

  /** Once per tick. */
  tick(now: number): void {
    this.#window.check(now);
  }

  /** Whether it counts in quorums. */
  get counts(): boolean {
    return this.recovery === 'none';
  }

  /** For messages to the peer: the run that may revert, and whether it has caught up. */
  get allowedBoot(): number {
    return this.recovery === 'asking' ? 0 : this.lostBoot;
  }
  get restored(): boolean {
    return this.recovery === 'none' && this.lostBoot !== 0;
  }

  becomeProbe(next: number): void {
    this.state = 'probe';
    this.next = Math.max(next, this.match + 1);
    this.probeSent = false;
    this.probed = false;
    this.probedBytes = 0;
    this.#clearInflight();
  }

  becomeReplicate(): void {
    this.state = 'replicate';
    this.next = this.match + 1;
    this.probeSent = false;
    this.probedBytes = 0;
    this.#clearInflight();
  }

  becomeSnapshot(): void {
    this.state = 'snapshot';
    this.probeSent = false;
    this.#clearInflight();
  }

  /** An append with entries up to `last` was sent. */
  sent(last: number, bytes: number, now: number): void {
    this.next = last + 1;
    this.#inflightLast.push(last);
    this.#window.left(bytes + MESSAGE_OVERHEAD_BYTES, now);
  }

  /** The peer has everything up to `index`; returns whether that is new. */
  acknowledged(index: number, now: number): boolean {
    while (this.#head < this.#inflightLast.length && this.#inflightLast[this.#head]! <= index) {
      this.#window.arrived(now);
      this.#head += 1;
    }
    if (this.#head === this.#inflightLast.length) this.#clearInflight();
    else if (this.#head > 256) {
      this.#inflightLast.splice(0, this.#head);
      this.#head = 0;
    }
    if (index <= this.match) return false;
    this.match = index;
    if (this.next <= index) this.next = index + 1;
    return true;
  }

  /** Forgets the peer's acknowledgements, because its log is gone. */
  revert(round: number): void {
    this.match = 0;
    this.sentCommit = 0;
    this.floorRound = round;
    this.ackedRound = 0;
    this.recoveryTarget = Infinity;
    this.heartbeatMatch = -1;
    this.becomeProbe(this.next);
  }

  #clearInflight(): void {
    if (this.#inflightLast.length > 0) this.#inflightLast = [];
    this.#head = 0;
    this.#window.clear();
  }
}
