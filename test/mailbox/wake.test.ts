import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { READER_PARKED } from '../../src/mailbox/layout.ts';
import { createRing, RingReader, RingWriter } from '../../src/mailbox/ring.ts';
import { onReplies, Parker, Waker } from '../../src/mailbox/wake.ts';

type Pair = { sab: SharedArrayBuffer; reader: RingReader; waker: Waker; parked: () => boolean; put: () => boolean };

/** One thread plays both sides; the interval replaces what keeps a real thread alive while it is parked. */
function setUp(t: TestContext): Pair {
  const alive = setInterval(() => undefined, 60_000);
  t.after(() => clearInterval(alive));
  const sab = createRing(64 * 1024);
  const control = new Int32Array(sab);
  const writer = new RingWriter(sab);
  const waker = new Waker(sab);
  const put = (): boolean => {
    writer.reserve(8);
    writer.commit(8);
    const owed = writer.publish();
    if (owed) waker.wake();
    return owed;
  };
  return { sab, reader: new RingReader(sab), waker, parked: () => control[READER_PARKED] === 1, put };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('a published record ends the park, and only the first publish owes a wake-up', async (t) => {
  const { reader, parked, put } = setUp(t);
  const parker = new Parker(reader);
  const park = parker.park(Infinity);
  await turn();
  assert.equal(parked(), true);
  assert.equal(put(), true);
  assert.equal(put(), false, 'the flag is taken');
  await park;
  assert.equal(parked(), false);
  assert.ok(reader.next() && reader.next() && !reader.next());
});

test('a record that is there already ends the park after a turn of the event loop', async (t) => {
  const { reader, put } = setUp(t);
  const parker = new Parker(reader);
  assert.equal(put(), false, 'the reader is awake');
  let turned = false;
  setImmediate(() => (turned = true));
  await parker.park(Infinity);
  assert.equal(turned, true, 'sockets and timers had their turn');
});

test('unpark ends the park, and one given before is not lost', async (t) => {
  const { reader, parked, put } = setUp(t);
  const parker = new Parker(reader);
  parker.unpark();
  await parker.park(Infinity);
  const park = parker.park(Infinity);
  await turn();
  assert.equal(parked(), true, 'one unpark ends one park');
  parker.unpark();
  await park;
  assert.equal(parked(), false);
  // The waiter that the local event left behind serves the next sleep.
  const next = parker.park(Infinity);
  await turn();
  assert.equal(put(), true);
  await next;
});

test('what the event loop has besides comes before the end of a park', async (t) => {
  const { reader, put } = setUp(t);
  const parker = new Parker(reader);
  for (const wake of [(): void => parker.unpark(), put]) {
    const park = parker.park(Infinity);
    await turn();
    const heard: string[] = [];
    // Two sockets whose data came together, as far as a parker can tell.
    setImmediate(() => {
      wake();
      heard.push('first');
    });
    setImmediate(() => heard.push('second'));
    await park;
    assert.deepEqual(heard, ['first', 'second']);
    while (reader.next());
    reader.release();
  }
});

test('a timeout ends the park; the next one works with its own', async (t) => {
  const { reader, parked, put } = setUp(t);
  const parker = new Parker(reader);
  await parker.park(5);
  assert.equal(parked(), false);
  await parker.park(1);
  const long = parker.park(600_000);
  await turn();
  assert.equal(put(), true);
  await long;
  reader.next();
  await parker.park(2); // earlier than the timer that the long park left behind
  const park = parker.park(Infinity);
  await turn();
  put();
  await park;
  parker.close();
});

test('however parks end, at most one waiter is left on the address', async (t) => {
  const { reader, put, sab } = setUp(t);
  const parker = new Parker(reader);
  for (let round = 0; round < 60; round += 1) {
    const park = parker.park(round % 3 === 1 || (round % 3 === 2 && round < 30) ? 1000 : 1);
    if (round % 3 === 1) setImmediate(() => parker.unpark());
    if (round % 3 === 2 && round < 30) setImmediate(put); // a notify takes the waiter; later nothing does
    await park;
    while (reader.next());
    reader.release();
  }
  parker.close();
  const waiters = Atomics.notify(new Int32Array(sab), READER_PARKED);
  assert.equal(waiters, 1);
});

test('interrupt wakes a sleeper without a record, and is nothing to one that is awake', async (t) => {
  const { reader, waker, parked } = setUp(t);
  let space = false;
  const parker = new Parker(reader, () => space);
  const park = parker.park(Infinity);
  await turn();
  assert.equal(parked(), true);
  space = true;
  waker.interrupt();
  await park;
  waker.interrupt();
  await parker.park(Infinity); // ready holds
  space = false;
  const next = parker.park(Infinity);
  await turn();
  assert.equal(parked(), true, 'the interrupt of one awake left nothing behind');
  parker.unpark();
  await next;
});

test('one park at a time', async (t) => {
  const parker = new Parker(setUp(t).reader);
  const park = parker.park(Infinity);
  assert.throws(() => parker.park(1), /parked already/);
  parker.unpark();
  await park;
});

test('replies: drained when they come, again when some are left, never after close', async (t) => {
  const { reader, parked, put } = setUp(t);
  put();
  put();
  let drained = 0;
  let tell = (): void => undefined;
  const watch = onReplies(reader, () => {
    assert.ok(reader.next(), 'called only when records wait');
    reader.release();
    drained += 1;
    tell();
  });
  assert.equal(parked(), false, 'records were there before');
  await new Promise<void>((resolve) => (tell = (): void => void (drained === 2 && resolve())));
  await turn();
  assert.equal(parked(), true);
  const third = new Promise<void>((resolve) => (tell = resolve));
  assert.equal(put(), true);
  await third;
  await turn();
  put();
  watch.poll();
  assert.equal(drained, 4, 'poll drains at once');
  watch.poll();
  assert.equal(drained, 4);
  await turn();
  watch.close();
  put();
  await turn();
  assert.equal(drained, 4);
});

test('a watch closed while it drains, or while it sleeps, leaves the ring to the next one', async (t) => {
  const { reader, sab, parked, put } = setUp(t);
  const inDrain = await new Promise<() => void>((resolve) => {
    const watch = onReplies(reader, () => {
      while (reader.next());
      reader.release();
      watch.close();
      resolve(() => watch.poll());
    });
    put();
  });
  await turn();
  assert.equal(parked(), false, 'closed while draining: it does not sleep again');
  inDrain();
  const sleeping = onReplies(new RingReader(sab), () => assert.fail('closed'));
  await turn();
  sleeping.close();
  await new Promise<void>((resolve) => {
    const next = new RingReader(sab);
    const watch = onReplies(next, () => {
      assert.ok(next.next());
      next.release();
      watch.close();
      resolve();
    });
    assert.equal(put(), true);
  });
});
