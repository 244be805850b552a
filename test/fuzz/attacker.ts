// Sends hostile bytes and reports what came back, without ever trusting the server to answer.
import { connect } from 'node:net';
import type { Attack } from './attack.ts';

export interface Outcome {
  readonly attack: Attack;
  /** Statuses in order; empty when nothing came. */
  readonly statuses: readonly number[];
  /** First bytes of the answer, for messages. */
  readonly text: string;
  readonly end: 'answered' | 'closed' | 'silent';
}

/** A request with broken framing may rightly wait for more bytes; then it is dropped after this long. */
const SILENCE_MS = 150;
/** A whole request must be answered or refused by closing; this only bounds a hang. */
const ANSWER_TIMEOUT_MS = 20_000;
const KEPT_BYTES = 16 * 1024;

export function attack(port: number, what: Attack): Promise<Outcome> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let text = '';
    let isDone = false;
    const done = (end: Outcome['end']): void => {
      if (isDone) return;
      isDone = true;
      clearTimeout(timer);
      socket.destroy();
      const statuses = [...text.matchAll(/HTTP\/1\.[01] (\d{3})/g)].map((match) => Number(match[1]));
      resolve({ attack: what, statuses, text, end });
    };
    const timer = setTimeout(
      () => done(text === '' ? 'silent' : 'answered'),
      what.complete ? ANSWER_TIMEOUT_MS : SILENCE_MS,
    );
    socket.on('data', (chunk: Buffer) => {
      if (text.length < KEPT_BYTES) text += chunk.toString('latin1');
      // One answer to one whole request is all there is; broken ones may cause several.
      if (what.complete && text.includes('\r\n\r\n')) done('answered');
    });
    // Resets are what the attacker deserves.
    socket.on('error', () => undefined);
    socket.on('close', () => done(text === '' ? 'closed' : 'answered'));
    socket.on('connect', () => socket.write(what.bytes));
  });
}

/** Runs attacks, at most `lanes` at a time. */
export async function attackAll(port: number, lanes: number, next: () => Attack | undefined): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const lane = async (): Promise<void> => {
    for (let what = next(); what !== undefined; what = next()) outcomes.push(await attack(port, what));
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return outcomes;
}

/** The HTTP library itself says these when it does not understand a request at all; they never reach our code. */
export function isFromHttpLibrary(outcome: Outcome, status: number): boolean {
  return (status === 501 || status === 505) && /uWebSockets|Connection: close/i.test(outcome.text);
}
