/**
 * Everything that fills with what comes from outside or waits for it: how much it holds, what happens when it is full,
 * and the test that shows it. The table is checked for being true of the sources: bounds exist under their names, and
 * so do the tests.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Group } from '../../src/group/group.ts';
import { Forwarding } from '../../src/shard/forwarding.ts';
import type { PeerPort } from '../../src/shard/ports.ts';
import { readText } from '../tidy/repository.ts';

interface Bound {
  readonly what: string;
  /** Where it is, and the name of its bound there. */
  readonly source: readonly [path: string, name: string];
  readonly holds: string;
  readonly full: string;
  readonly shownBy: readonly [path: string, title: string];
}

const limits = (name: string): Bound['source'] => ['src/base/limits.ts', name];
const peer = (name: string): Bound['source'] => ['src/peer/limits.ts', name];

const BOUNDS: readonly Bound[] = [
  {
    what: 'mailbox of a shard',
    source: limits('REQUEST_RING_BYTES'),
    holds: '8 MiB',
    full: '503, Retry-After',
    shownBy: ['test/mailbox/ring.test.ts', 'fills to the last byte: exact fit, then refusal, then space again'],
  },
  {
    what: 'payloads beside a mailbox',
    source: limits('INLINE_PAYLOAD_BYTES_MAX'),
    holds: 'bytes of a transfer channel',
    full: '503, Retry-After',
    shownBy: ['test/mailbox/transfer-channel.test.ts', 'a full transfer channel refuses and leaves the buffer alone'],
  },
  {
    what: 'bodies in flight',
    source: limits('BODY_BYTES_MAX'),
    holds: '256 MiB of a node',
    full: '503, Retry-After; one body: 413',
    shownBy: [
      'test/http/limits.test.ts',
      'bodies in flight share a budget, which is given back by answers and by aborts',
    ],
  },
  {
    what: 'an entry of the log while it is built',
    source: limits('ENTRY_FILL_BYTES'),
    holds: 'bytes of one entry',
    full: 'the next entry begins',
    shownBy: [
      'test/group/entry-bound.test.ts',
      'thousands of small commands make entries that are full, not one for each',
    ],
  },
  {
    what: 'large commands that wait to be cut',
    source: limits('LARGE_WAITING_BYTES_MAX'),
    holds: '128 MiB of a group',
    full: '503, Retry-After',
    shownBy: ['test/group/large-commands.test.ts', 'large commands that wait are bounded; small ones are taken'],
  },
  {
    what: 'large commands in pieces',
    source: limits('PIECES_IN_FLIGHT_BYTES_MAX'),
    holds: '1 MiB of a group on the way to a majority',
    full: 'the next piece waits',
    shownBy: [
      'test/group/large-commands.test.ts',
      'no more is in flight than followers take in two turns, and no second command begins before the first is applied',
    ],
  },
  {
    what: 'proposed and not yet committed',
    source: limits('UNCOMMITTED_BYTES_MAX'),
    holds: '512 MiB of a group, less by configuration',
    full: '503, Retry-After',
    shownBy: [
      'test/shard/admission.test.ts',
      'bytes that wait for a majority are bounded on their own, and are free again with the commit',
    ],
  },
  {
    what: 'bytes that only the nodes hold',
    source: ['src/group/admission.ts', 'hot = new Gate'],
    holds: '64 MiB of a group, with a cold store',
    full: '503, Retry-After',
    shownBy: [
      'test/shard/admission.test.ts',
      'writes beyond the bound of hot bytes are refused, smaller ones pass, and deleting makes room',
    ],
  },
  {
    what: 'reads that wait for a node to know enough',
    source: ['src/shard/waiting-reads.ts', 'WAITING_BYTES_MAX'],
    holds: '8 MiB of a shard',
    full: '503, Retry-After',
    shownBy: ['test/shard/waiting-reads.test.ts', 'too many waiting reads are refused at once'],
  },
  {
    what: 'forwarded writes that wait for a leader',
    source: ['src/shard/forwarding.ts', 'WAITING_BYTES_MAX'],
    holds: '64 MiB of a shard',
    full: '503, Retry-After',
    shownBy: ['test/bounds/bounds.test.ts', 'writes that wait for a leader are refused beyond their bound'],
  },
  {
    what: 'forwarded requests without an answer',
    source: peer('forwardsMax'),
    holds: '32,768 of a shard',
    full: 'they wait for a leader, which is bounded',
    shownBy: ['test/peer/forwards.test.ts', 'beyond the bound a request is not forwarded, and an answer makes room'],
  },
  {
    what: 'frames for one peer',
    source: peer('queueBytesMax'),
    holds: '64 MiB',
    full: 'the oldest messages of Raft go, which repeats itself; forwards are told',
    shownBy: [
      'test/peer/load.test.ts',
      'a peer that does not read costs a bounded queue; messages yield to forwards, and all is counted',
    ],
  },
  {
    what: 'urgent frames for one peer',
    source: ['src/peer/send-queue.ts', 'urgent'],
    holds: 'a part of that',
    full: 'the oldest message of Raft goes',
    shownBy: [
      'test/peer/send-queue.test.ts',
      'the urgent priority has its own bound: its oldest Raft message is dropped, and no entry is',
    ],
  },
  {
    what: 'strangers that shake hands',
    source: peer('handshakesMax'),
    holds: '64',
    full: 'the one that has waited longest goes',
    shownBy: [
      'test/peer/hostile.test.ts',
      'too many handshakes at a time push out the oldest, and an honest node still gets in',
    ],
  },
  {
    what: 'subjects of limited log lines',
    source: ['src/peer/log-limiter.ts', 'SUBJECTS_MAX'],
    holds: 'some hundred',
    full: 'forgotten',
    shownBy: ['test/peer/log-limiter.test.ts', 'a thousand subjects are not remembered'],
  },
  {
    what: 'snapshots on their way out',
    source: limits('SNAPSHOTS_SENT_MAX'),
    holds: '2 of a shard, 1 to each node',
    full: 'the others wait',
    shownBy: [
      'test/shard/group-snapshots.test.ts',
      'two nodes are served at the same time, a third one waits, and a stalled one delays only itself',
    ],
  },
  {
    what: 'bytes of a snapshot that are not acknowledged',
    source: peer('snapshotWindowBytes'),
    holds: '2 MiB',
    full: 'the sender waits',
    shownBy: [
      'test/peer/snapshots.test.ts',
      'the sender keeps to the window, and gives up a receiver that falls silent',
    ],
  },
  {
    what: 'rows of a snapshot that wait for their half to be empty',
    source: ['src/shard/incoming-group-snapshots.ts', 'HELD_BYTES_MAX'],
    holds: '4 MiB of a transfer',
    full: 'the transfer has failed',
    shownBy: [
      'test/shard/incoming-group-snapshots.test.ts',
      'more than a window, or a full disk, ends the transfer; the next one finds the half cleared further',
    ],
  },
  {
    what: 'log that is kept for a node that gets a snapshot',
    source: ['src/shard/log-pins.ts', 'PIN_BOUNDS'],
    holds: '64 MiB or what it has taken, 500,000 entries',
    full: 'the transfer ends, with a warning',
    shownBy: [
      'test/shard/group-snapshots.test.ts',
      'a node slower than the writes is abandoned, in the snapshot or in the log after it',
    ],
  },
  {
    what: 'tries to send a snapshot',
    source: ['src/shard/outgoing-group-snapshots.ts', 'RETRY_MS_MAX'],
    holds: 'one a minute to who cannot take it',
    full: 'a pause that doubles',
    shownBy: [
      'test/shard/group-snapshots.test.ts',
      'a snapshot that fails is tried again after a pause that doubles, up to a minute, until one has come to something',
    ],
  },
  {
    what: 'log in memory',
    source: ['src/store/turn-log.ts', 'LOG_MEMORY'],
    holds: '6 MiB of a group, 48 MiB of a shard',
    full: 'older entries are read back from disk',
    shownBy: [
      'test/store/turn-log.test.ts',
      'entries beyond the budget are on disk only, and are read back unchanged, whatever their size',
    ],
  },
  {
    what: 'rows that one step of clearing deletes',
    source: ['src/store/shard-store.ts', 'clearRowsMax'],
    holds: '512',
    full: 'the next turn goes on',
    shownBy: [
      'test/store/clear-stage.test.ts',
      'each step deletes a bounded number of rows, in one commit, and says when the half is empty',
    ],
  },
  {
    what: 'exports of a shard',
    source: limits('EXPORTS_MAX'),
    holds: '2',
    full: 'refused',
    shownBy: ['test/backup/shard/exports.test.ts', 'two run at once, and one without keep-alive ends'],
  },
  {
    what: 'heads of streams in memory',
    source: ['src/stream/core/state.ts', 'cachedHeads'],
    holds: 'a number of a group',
    full: 'the longest unused go',
    shownBy: ['test/stream/core/state.test.ts', 'heads in memory are bounded when many streams are only read'],
  },
  {
    what: 'bytes of a live event',
    source: limits('TAIL_EVENT_BYTES_MAX'),
    holds: '64 KiB',
    full: 'readers fetch them with a read',
    shownBy: ['test/shard/tail-events.test.ts', 'events above the limit carry no bytes and say so'],
  },
  {
    what: 'bytes for live readers that do not read',
    source: limits('READER_BUFFER_BYTES_MAX'),
    holds: '1 MiB of a reader',
    full: 'moved to catch-up reads',
    shownBy: ['test/http/live/untaken.test.ts', 'a thousand readers that stop reading hold a bounded part of memory'],
  },
  {
    what: 'bytes for all of them',
    source: ['src/http/backpressure.ts', 'WAITING_BYTES_MAX'],
    holds: '128 MiB of a node',
    full: 'those with more than 64 KiB are cut',
    shownBy: [
      'test/http/live/untaken.test.ts',
      'beyond the bound of all readers one that leaves much untaken is cut, and the others go on',
    ],
  },
  {
    what: 'forks that a node makes',
    source: limits('FORKS_IN_MAKING_MAX'),
    holds: '32',
    full: '503, Retry-After',
    shownBy: ['test/forks/service/fork-service.test.ts', 'the number of concurrent forks is bounded'],
  },
  {
    what: 'webhook requests',
    source: limits('WEBHOOK_DELIVERIES_MAX'),
    holds: '64 of a node',
    full: 'the others wait in turn',
    shownBy: [
      'test/subscriptions/service/driver.test.ts',
      'a bounded number of deliveries at once, then the others in order',
    ],
  },
  {
    what: 'subscriptions and their links',
    source: limits('SUBSCRIPTION_STATE_BYTES_MAX'),
    holds: '16 MiB of a cluster',
    full: '429',
    shownBy: ['test/subscriptions/state/links.test.ts', 'subscriptions, streams and bytes have bounds'],
  },
  {
    what: 'requests that are traced',
    source: ['src/tracing/otlp-traces.ts', 'FOLLOWED_PER_SECOND'],
    holds: '100 a second',
    full: 'the others are not followed, and counted',
    shownBy: [
      'test/tracing/span-queue.test.ts',
      'a hundred requests a second are followed, of those that clients choose and of the others',
    ],
  },
  {
    what: 'traced requests of a shard',
    source: ['src/shard/traced-slots.ts', 'TRACED_SLOTS_MAX'],
    holds: '1024',
    full: 'their spans have no stages',
    shownBy: ['test/tracing/stage-parts.test.ts', 'a reply carries stages behind its body, and the next one none'],
  },
  {
    what: 'spans that wait for the receiver',
    source: ['src/tracing/span-queue.ts', 'WAITING_SPANS_MAX'],
    holds: '2048',
    full: 'what comes is lost, and counted',
    shownBy: ['test/tracing/span-queue.test.ts', 'a receiver that hangs: spans wait up to the bound, the rest is lost'],
  },
  {
    what: 'uploads of backups that wait on disk',
    source: ['src/backup/import/spool.ts', 'class Spool'],
    holds: 'half of what is free',
    full: '507',
    shownBy: [
      'test/backup/import/spool.test.ts',
      'a spool returns what it took, and refuses what its volume cannot hold',
    ],
  },
];

test('every bound is where the table says, and so is the test that shows it', () => {
  for (const { what, source, shownBy } of BOUNDS) {
    const [path, name] = source;
    assert(readText(path).includes(name), `${what}: ${name} in ${path}`);
    const [file, title] = shownBy;
    assert(readText(file).includes(`'${title}'`), `${what}: '${title}' in ${file}`);
  }
  assert.equal(new Set(BOUNDS.map(({ what }) => what)).size, BOUNDS.length);
});

test('writes that wait for a leader are refused beyond their bound', () => {
  const refused: number[] = [];
  const group = { id: 0, accepts: false, raft: { leader: 0 }, state: { appliedIndex: 1 } } as unknown as Group;
  const forwarding = new Forwarding({} as PeerPort, 1, {
    deliver: ({ id }) => refused.push(id),
    wake: () => undefined,
    propose: () => false,
  });
  forwarding.turn(1000, 1000);
  const bytes = new Uint8Array(8 * 1024 * 1024);
  for (let slot = 1; slot <= 10; slot++) forwarding.submit(group, slot, bytes, undefined, 1000);
  assert.equal(forwarding.waiting, 8, '64 MiB');
  assert.deepEqual(refused, [9, 10]);
});
