// A node's words about its cold store, on simulated time: at once, and not more often than people can read.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ColdOutcome } from '../../../src/cold/ports.ts';
import { ColdHealth } from '../../../src/cold/service/health.ts';
import { FakeRuntime } from '../../support/fake-runtime.ts';

const OK: ColdOutcome = { ok: true, value: undefined };
const AWAY: ColdOutcome = { ok: false, failure: 'unreachable', message: 'ECONNREFUSED' };

class Rig {
  outcome: ColdOutcome = OK;
  readonly lines: string[] = [];
  readonly asked: string[] = [];
  readonly health: ColdHealth;
  readonly #runtime = new FakeRuntime();

  constructor() {
    this.health = new ColdHealth({
      run: (op) => {
        this.asked.push(op);
        this.health.met(op === 'probe' ? 'probe' : 'list', this.outcome);
        return Promise.resolve(this.outcome);
      },
      log: (_level, _fields, sentence) => void this.lines.push(`${this.#runtime.clockMs} ${sentence}`),
      runtime: this.#runtime,
    });
    this.health.start();
  }

  /** `each` happens every second. */
  async pass(seconds: number, each: () => void = () => undefined): Promise<void> {
    for (let second = 0; second < seconds; second++) {
      this.#runtime.skip(1000);
      each();
      await this.#runtime.pass(0);
    }
  }
}

const FAILS = 'the cold store fails; bytes stay on the nodes until it works';
const STILL = 'the cold store still fails; bytes stay on the nodes until it works';
const WORKS = 'the cold store works again';

test('an outage is one line at its begin, one at its end, and a reminder every five minutes', async () => {
  const rig = new Rig();
  rig.health.met('probe', OK);
  rig.outcome = AWAY;
  // Uploads of 16 groups fail every second.
  await rig.pass(899, () => {
    for (let i = 0; i < 16; i++) rig.health.met('put', AWAY);
  });
  rig.outcome = OK;
  await rig.pass(20);
  assert.deepEqual(rig.lines, [`1000 ${FAILS}`, `301000 ${STILL}`, `601000 ${STILL}`, rig.lines.at(-1) as string]);
  assert(rig.lines.at(-1)?.endsWith(WORKS));
  assert(rig.asked.filter((op) => op === 'probe').length < 120, 'the store is not asked every second');
});

test('a store that comes and goes is told now and then, one that stays away is', async () => {
  const rig = new Rig();
  let second = 0;
  await rig.pass(600, () => rig.health.met('put', second++ % 2 === 0 ? AWAY : OK));
  assert(rig.lines.length <= 40, rig.lines.join('\n'));
  rig.outcome = AWAY;
  await rig.pass(60, () => rig.health.met('put', AWAY));
  assert(rig.lines.at(-1)?.endsWith(FAILS), rig.lines.join('\n'));
});

test('it shows at once, since when and why, also when the store was never reached', async () => {
  const rig = new Rig();
  const down = { reachable: false, unreachable_since: new Date(0).toISOString(), last_error: 'ECONNREFUSED' };
  rig.health.met('probe', AWAY);
  assert.deepEqual(rig.health.report(), { ...down, was_reached: false });
  rig.outcome = AWAY;
  await rig.pass(100);
  assert.deepEqual(rig.health.report(), { ...down, was_reached: false });
  rig.outcome = OK;
  await rig.pass(11);
  const up = { reachable: true, was_reached: true, unreachable_since: null, last_error: null };
  assert.deepEqual(rig.health.report(), up);
  // The store goes away while no request uses it.
  rig.outcome = AWAY;
  await rig.pass(11);
  assert.equal(rig.health.report().reachable, false);
});

test('what one kind of task says does not hide that another one fails', async () => {
  const rig = new Rig();
  rig.health.met('probe', OK);
  rig.outcome = { ok: false, failure: 'denied', message: '403 AccessDenied' };
  rig.health.met('put', rig.outcome);
  rig.health.met('get', OK);
  rig.health.met('get', { ok: false, failure: 'missing', message: 'no such object' });
  assert.equal(rig.health.report().last_error, '403 AccessDenied');
  rig.health.met('put', { ok: false, failure: 'busy', message: 'too much work' });
  rig.health.met('put', OK);
  assert.equal(rig.health.report().reachable, true);
  await rig.pass(1);
});
