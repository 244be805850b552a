/** The signs of life of a producer that has nothing else to write, so that readers tell it from one that died. */
import { StreamError } from './client.ts';
import { type ResumableLog, isTimeout } from './resumable-log.ts';

export const PRODUCER_TIMEOUT_MS = 30_000;
/** Signs of life in a timeout, so that a late one is no death. */
const SIGNS_OF_LIFE = 3;

export interface SignsOfLife {
  written(): void;
  stop(): void;
}

export function signsOfLife(log: ResumableLog, timeoutMs: number, onRefusal: (reason: unknown) => void): SignsOfLife {
  let isQuiet = true;
  // The next one goes when this one is durable, so an outage does not collect them.
  let isUnderWay = false;
  const timer = setInterval(() => {
    if (isQuiet && !isUnderWay) {
      isUnderWay = true;
      log.showLife().then(() => (isUnderWay = false), onRefusal);
    }
    isQuiet = true;
  }, timeoutMs / SIGNS_OF_LIFE);
  return { written: () => (isQuiet = false), stop: () => clearInterval(timer) };
}

export function checkTimeout(timeoutMs: number): void {
  if (isTimeout(timeoutMs)) return;
  const sentence = `producerTimeoutMs is ${timeoutMs}; name a number of milliseconds above 0 and below 2147483648`;
  throw new StreamError({ status: 0, code: 'INVALID_ARGUMENT', sentence });
}
