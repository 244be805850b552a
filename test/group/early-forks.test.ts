// A fork in the making keeps its name for 15 s by the leader's clock. A leader whose clock was an hour ahead began one,
// and the next leader's clock is right.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeForkBegin } from '../../src/protocol/fork-command.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';
import { pendingNotifications } from '../../src/stream/forks/pin.ts';
import { Host } from './host.ts';

const HOUR_MS = 3_600_000;
const SILENCE_MS = 15_000;

class Forks extends Host {
  #slots = 0;

  /** The answer to a command about the fork. */
  do(kind: number, forkToken: number): string | undefined {
    const slot = ++this.#slots;
    const payload = encodeForkBegin('bucket\0source', -1, 0);
    const isBegin = kind === COMMANDS.forkBegin.number;
    this.submit(slot, { kind, stream: 'fork', forkToken, ...(isBegin ? { payload } : {}) });
    this.group.seal();
    this.work();
    this.answerFrom2();
    return this.answers.get(slot);
  }

  begin(forkToken: number): string | undefined {
    return this.do(COMMANDS.forkBegin.number, forkToken);
  }

  create(): string | undefined {
    return this.do(COMMANDS.create.number, 0);
  }

  get told(): readonly number[] {
    return pendingNotifications(this.group.state, 10).map(({ token }) => token);
  }
}

/** A fork with token 1, begun when the clock was `aheadMs` ahead of what it is now. */
function begun(aheadMs: number): Forks {
  const host = new Forks();
  host.elect();
  host.nowMs += aheadMs;
  assert.equal(host.begin(1), 'OK');
  host.nowMs -= aheadMs;
  return host;
}

test('another fork and an ordinary stream take the name at once, and the source is told', () => {
  for (const take of [(host: Forks) => host.begin(2), (host: Forks) => host.create()]) {
    const host = begun(HOUR_MS);
    assert.equal(take(host), 'OK');
    assert.deepEqual(host.told, [1]);
    assert.equal(host.do(COMMANDS.forkEnd.number, 1), 'FORK_LOST', 'its creator learns of it');
  }
});

test('the same beginning again is a repetition', () => {
  const host = begun(HOUR_MS);
  assert.equal(host.begin(1), 'OK');
  assert.deepEqual(host.told, []);
});

test('no other request ends it', () => {
  const host = begun(HOUR_MS);
  assert.equal(host.do(COMMANDS.append.number, 0), 'STREAM_NOT_FOUND');
  assert.equal(host.do(COMMANDS.deleteStream.number, 0), 'STREAM_NOT_FOUND');
  assert.deepEqual(host.told, []);
});

test('a clock that differs by less than the silence waits for it', () => {
  const host = begun(SILENCE_MS);
  assert.equal(host.begin(2), 'FORK_FORMING');
  assert.equal(host.create(), 'FORK_FORMING');
  host.nowMs += 2 * SILENCE_MS;
  assert.equal(host.begin(2), 'OK');
});
