/** Bugs planted for the runs behind thin links (thin-run.ts). Each takes effect inside a pure class, whose prototype is changed. */
import { FlightWindow } from '../../src/base/flight-window.ts';
import { LANE_ENTRIES, SendQueue } from '../../src/peer/send-queue.ts';
import { Core } from '../../src/raft/core.ts';
import { Progress } from '../../src/raft/progress.ts';
import type { Mutation } from './world.ts';

/** Heartbeats and answers wait behind entries. */
const urgentWaitsInLine = (): Mutation => ({
  install: () => {
    const { push } = SendQueue.prototype;
    SendQueue.prototype.push = function (this: SendQueue, frame: Uint8Array) {
      return push.call(this, frame, LANE_ENTRIES);
    };
    return () => (SendQueue.prototype.push = push);
  },
});

/** Any answer keeps a leader in office, however old what it answers. */
const staleAnswersCount = (): Mutation => ({
  install: () => {
    const { answeredSince } = Progress.prototype;
    Progress.prototype.answeredSince = function (this: Progress) {
      return this.recentlyActive;
    };
    return () => (Progress.prototype.answeredSince = answeredSince);
  },
});

/** What is under way only grows, whatever the way carries. */
const windowNeverShrinks = (): Mutation => ({
  install: () => {
    const { arrived, check } = FlightWindow.prototype;
    FlightWindow.prototype.arrived = function (this: FlightWindow) {
      return arrived.call(this, -Infinity);
    };
    FlightWindow.prototype.check = () => undefined;
    return () => Object.assign(FlightWindow.prototype, { arrived, check });
  },
});

/** A leader that commits nothing stays in office while followers answer. */
const stallIsEndured = (): Mutation => ({
  install: () => {
    const { isStalled } = Core.prototype;
    Core.prototype.isStalled = () => false;
    return () => (Core.prototype.isStalled = isStalled);
  },
});

export const THIN_MUTATIONS: Readonly<Record<string, () => Mutation>> = {
  'urgent-waits-in-line': urgentWaitsInLine,
  'stale-answers-count': staleAnswersCount,
  'window-never-shrinks': windowNeverShrinks,
  'stall-is-endured': stallIsEndured,
};
