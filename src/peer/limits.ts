/** Bounds of the peer links with units and reasons. Tests make them smaller. */
import { assert } from '../base/assert.ts';
import { BODY_BYTES_MAX, ENTRY_BYTES_MAX } from '../base/limits.ts';
import { FRAME_PAYLOAD_BYTES_MAX } from './codec/frame.ts';

const KIB = 1024;
const MIB = 1024 * KIB;

export const PEER_LIMITS = {
  /** From connect to WELCOME, both sides. Four small frames; a slow peer is a stranger or a stopped process. */
  handshakeTimeoutMs: 5000,
  /** Concurrent handshakes; beyond it the oldest is closed, because an honest handshake takes milliseconds. */
  handshakesMax: 64,
  /** How many TLS handshakes may begin. */
  tlsHandshakes: { fromAddress: 50, fromStrangers: 200 },
  /** Concurrent sessions (nodes times their shards). Peers know the secret, so this bounds mistakes, not attacks. */
  sessionsMax: 1024,
  /** Concurrent HTTP connections: those of the peers and of a few operators. */
  httpConnectionsMax: 64,
  /** From connect or the last answer to the next answer; a probe of 32 MiB takes less. */
  httpIdleMs: 10_000,
  /** Interval of pings on every link and of checks for received bytes. */
  tickMs: 1000,
  /** Ticks without a byte after which a link is lost. Ticks rather than time, as the process may be suspended. */
  silentTicksMax: 5,
  /** First delay before reconnecting; it doubles. Each is shortened by up to a half at random. */
  backoffMinMs: 100,
  backoffMaxMs: 2000,
  /**
   * Frames queued for one peer, without the urgent ones. Beyond it the oldest Raft messages are dropped, because Raft
   * repeats them. Well above the largest entry: otherwise each heartbeat behind one would drop it again, and it would
   * never arrive.
   */
  queueBytesMax: 80 * MIB,
  /** Bytes given to the socket beyond the kernel's buffer; frames in the queue can still be dropped. */
  writeAheadBytes: 256 * KIB,
  /** A larger RAFT frame is closed, so that a peer can begin with a turn before all of it has arrived. */
  raftFrameBytes: MIB,
  /** Forwarded requests that wait for an answer, of one shard: as many as its ring can bring in about two turns. */
  forwardsMax: 32_768,
  /**
   * After this the outcome counts as unknown. Above the time that a busy leader takes for the largest bodies of several
   * nodes, each some ten seconds at a load of 30 on two cores: a client that gives up too soon repeats a write that is
   * executed anyway. Broken links and former leaders are noticed long before.
   */
  forwardTimeoutMs: 60_000,
  /** Bytes of a snapshot in flight; bounds both ends. At 1 ms round trip it allows 2 GB/s. */
  snapshotWindowBytes: 2 * MIB,
  /** A snapshot adds a chunk only while fewer bytes are queued. */
  snapshotQueueBytes: 512 * KIB,
  /** Rate of all snapshots that one shard sends, in bytes per second; 0 = unlimited. */
  snapshotBytesPerSecond: 64 * MIB,
  /** A snapshot fails when its receiver is silent for this long. It covers a slow disk, not a dead peer. */
  snapshotStallMs: 60_000,
  /** One log line about the same remote address, or the same link, per this time. */
  logWindowMs: 10_000,
};
export type PeerLimits = Readonly<typeof PEER_LIMITS>;

/** Largest chunk of a snapshot, reached only for a large row: small compared with the window. */
export const SNAPSHOT_CHUNK_BYTES_MAX = 256 * KIB;

/** Bytes received between two acknowledgements: a small part of the window. */
export const SNAPSHOT_ACK_BYTES = 256 * KIB;

assert(
  PEER_LIMITS.queueBytesMax / 2 >= ENTRY_BYTES_MAX + MIB && PEER_LIMITS.queueBytesMax / 2 >= BODY_BYTES_MAX + MIB,
  'the largest entry fits into the queue beside the largest request',
);
assert(SNAPSHOT_CHUNK_BYTES_MAX < FRAME_PAYLOAD_BYTES_MAX, 'a chunk fits in a frame');

/** Required relations between the bounds of one shard. */
export function checkLimits(limits: PeerLimits): void {
  assert(limits.snapshotWindowBytes >= 2 * (SNAPSHOT_ACK_BYTES + SNAPSHOT_CHUNK_BYTES_MAX), 'a window outlasts an ack');
  assert(limits.writeAheadBytes >= 64 * KIB, 'a socket that is written to so far ahead tells when it has drained');
  assert(limits.queueBytesMax > limits.snapshotQueueBytes, 'a snapshot leaves room for everything else');
}
