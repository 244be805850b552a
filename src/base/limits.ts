/** Every bound of the service with its unit and reason. Relations between bounds are asserted at the end of the file. */
import { assert } from './assert.ts';

const KIB = 1024;
const MIB = 1024 * KIB;

/** Request body of a client route. Larger: 413. */
export const BODY_BYTES_MAX = 32 * MIB;
/** Encoded attribute object. Larger: 400. */
export const ATTRIBUTES_BYTES_MAX = 16 * KIB;
/** Bucket and stream together after decoding; below LMDB's key limit of 1978 bytes with our prefix. */
export const NAME_BYTES_MAX = KIB;
/** Producer-Id: part of an LMDB key, which ends at 1978 bytes. */
export const PRODUCER_ID_BYTES_MAX = KIB;
/** Stream-Seq, Content-Type: each comes from a 16 KiB header block; a state row must stay small. */
export const TOKEN_BYTES_MAX = 4 * KIB;
/** Usage meter: one write unit. Part of the contract, never configurable. */
export const WRITE_UNIT_BYTES = 10_240;
/** Version of the usage report. */
export const USAGE_VERSION = 1;

/** A payload above this goes through the out-of-band lane, so one request cannot hog a ring. */
export const INLINE_PAYLOAD_BYTES_MAX = 256 * KIB;
/** Main -> shard ring: about 10,000 small appends; beyond it the shard is behind by more than a turn and 503 is honest. */
export const REQUEST_RING_BYTES = 8 * MIB;
/** Shard -> main ring: holds dozens of read replies of INLINE_PAYLOAD_BYTES_MAX while main writes to sockets. */
export const REPLY_RING_BYTES = 16 * MIB;
/** Command bytes one turn takes from the ring: bounds the LMDB commit and the latency of everyone in the turn. */
export const TURN_BYTES_MAX = 4 * MIB;

/**
 * Commands of a turn become Raft entries of about this size, or one entry for a larger command alone: what one message between
 * nodes carries anyway, so that no entry waits for more than itself.
 */
export const ENTRY_FILL_BYTES = MIB;
/**
 * Command of a client or a peer before it is normalised: the largest body, and head, names, attributes and producer from a
 * header block of 16 KiB. Larger: 413.
 */
export const COMMAND_BYTES_MAX = BODY_BYTES_MAX + 64 * KIB;
/** Data of one Raft entry: the largest command, and where each of its records ends (4 bytes each). */
export const ENTRY_BYTES_MAX = COMMAND_BYTES_MAX + MIB;

/** Proposed and not yet committed bytes of a group; above the bodies that may be in flight, so the HTTP side refuses first. */
export const UNCOMMITTED_BYTES_MAX = 512 * MIB;
/** Frames of one append-batch: each may be refused on its own, so each costs a result. More: 413. */
export const BATCH_FRAMES_MAX = 512;
/** Records of one request: each costs an index entry, and all of them are applied in one go. More: 413. */
export const RECORDS_PER_REQUEST_MAX = 100_000;

/** Largest body of one read answer unless a single record is larger; clients continue from Stream-Next-Offset. */
export const READ_BYTES_MAX = MIB;
/** Messages or records of one answer in parts: 256 KiB of ends at most. */
export const PARTS_MAX = 65_536;
/** Streams in one page of a bucket listing. */
export const LIST_LIMIT_MAX = 1000;
/**
 * Largest value in LMDB that is written often: exactly one overflow page (4096 less LMDB's 24-byte page header). Values of
 * several pages need runs of free pages; looking for them makes LMDB load its whole free list and write it back with
 * every commit (measured: 1.3 MB per commit instead of 0.1 MB after a minute of load).
 */
export const PAGE_VALUE_BYTES = 4072;
/** Payload of a chunk: what one cold read fetches at least, and one full read answer. */
export const COLD_CHUNK_BYTES = MIB;
/**
 * Slices of one object: each costs a chunk row and a head of some other stream when the flush is applied (about 20 µs
 * together), so this bounds the pause of a shard at some 20 ms.
 */
export const FLUSH_SLICES_MAX = 1024;
/** Encoded list of a flush, a command like any other; only streams with long names come near. */
export const FLUSH_LIST_BYTES_MAX = 512 * KIB;
/** Chunks of one stream that become one, at least; streams of tiny chunks are read with one request for sixteen, and so on. */
export const COMPACT_RUN_MIN = 16;
/**
 * And at most. Each is a request to the store when it is merged; and a run this long is merged
 * whatever the sizes, so a reader meets no more requests than this in one MiB.
 */
export const COMPACT_RUN_MAX = 256;
/** Chunks merged by one job: as many rows are deleted when the command is applied, some 10 ms. */
export const COMPACT_CHUNKS_MAX = 512;
/** Object keys of S3 may have 1024 bytes; ours stay in one row and in a sentence, with room for storage.cold.root. */
export const OBJECT_KEY_BYTES_MAX = 255;
/** Chunks that one cold answer is put together from, unless a single record spans more: each is a request to the store. */
export const COLD_REFS_MAX = 32;
/** Chunks behind an answer that the plan names for the read-ahead: 16 MiB ahead of a replay at most. */
export const COLD_AHEAD_CHUNKS = 16;
/** Chunks released by the command that removes a stream; the rest of a long one follows with the sweeps. */
export const RELEASE_CHUNKS_AT_ONCE = 256;
/** Chunks released by one sweep: each is two or three rows, so a sweep stays at some 10 ms. */
export const RELEASE_CHUNKS_PER_SWEEP = 1024;

/**
 * Snapshots that a shard sends at once, and of these to one node. Each holds an LMDB read transaction open, which keeps old
 * pages from being used again, and a checkpoint of its group comes first; a node that lost its disk needs one of every
 * group, and they share one rate anyway. Two, so that one receiver that stalls does not keep another node waiting.
 */
export const SNAPSHOTS_SENT_MAX = 2;
export const SNAPSHOTS_SENT_PER_NODE_MAX = 1;

/** Of group snapshots and manifests (src/backup/format/document.ts); a newer one is refused. */
export const BACKUP_FORMAT_VERSION = 1;
export const BACKUP_CONTENT_TYPE = 'application/x-msgpack';
/**
 * Exports that a shard runs at once: each holds an LMDB read transaction open, so that pages which are replaced meanwhile are not
 * used again and the file grows by what is written; a backup takes one group after the other.
 */
export const EXPORTS_MAX = 2;
/** Bytes of an export on their way from its thread to the socket: a few pieces, so that neither waits for the other. */
export const EXPORT_WINDOW_BYTES = MIB;
/**
 * Bytes a second of all exports of a node that clients use meanwhile: on two cores, together with the tool, they then take a fifth of the
 * machine instead of all that is idle, which cost appends half of their p99 (bench backup-load).
 */
export const EXPORT_BUSY_BYTES_PER_SECOND = 16 * MIB;
/** Rows of a backup in one replicated command. */
export const IMPORT_PIECE_BYTES = MIB - 64 * KIB;

/** Buckets of which a node remembers whether they have a quota, with some 300 bytes each; the oldest are asked after again. */
export const QUOTA_BUCKETS_MAX = 65_536;
/** Writes that wait for what the groups say of their bucket's quota, in number and bytes. More: 503. */
export const QUOTA_HELD_MAX = 10_000;
export const QUOTA_HELD_BYTES_MAX = 64 * MIB;

/** Bytes that forks in the making inherit, on a node; a larger fork is made alone. More: 503. */
export const FORK_BYTES_IN_MAKING_MAX = 64 * MIB;
/** What forks of a node copy in a second together: each byte is read, sent to all nodes and written by each. */
export const FORK_BYTES_PER_SECOND = 32 * MIB;
/** Forks that a node makes at once: each holds a piece of its source, a MiB or one message, and the body of its PUT. More: 503. */
export const FORKS_IN_MAKING_MAX = 32;
/** Forks of an unknown outcome that a node gives up at once, each a kilobyte; others end after 15 s of silence. */
export const FORKS_UNDOING_MAX = 1024;
/** Sources that are told in one go for one shard, each with two commands: what hundreds of forks that expire together need. */
export const FORK_NOTIFICATIONS_MAX = 64;
/** Forks that are asked after in one go for one shard, with a command each, and only now and then: about one a second. */
export const FORK_PIN_CHECKS_MAX = 16;

/** Receipts kept per producer: older duplicates answer with the current tail. */
export const PRODUCER_RECEIPTS = 5;
/** Bytes a live reader may have buffered in its socket before it is moved to catch-up reads. */
export const READER_BUFFER_BYTES_MAX = MIB;
/** Tail events above this carry no bytes; readers fetch them with a read, so one event cannot flood the reply ring. */
export const TAIL_EVENT_BYTES_MAX = 64 * KIB;

/** Subscriptions of a cluster: every node folds all of them from one log into memory. More: 429. */
export const SUBSCRIPTIONS_MAX = 10_000;
/** Streams of one subscription: a wake lists all of them in one body. More are refused, or not linked and counted. */
export const SUBSCRIPTION_LINKS_MAX = 10_000;
/** All subscriptions together, as they stand in a checkpoint of their log: one append, so well below BODY_BYTES_MAX. More: 429. */
export const SUBSCRIPTION_STATE_BYTES_MAX = 16 * MIB;
/** Body of a subscription request: SUBSCRIPTION_LINKS_MAX acks of usual names. Larger: 413. */
export const SUBSCRIPTION_BODY_BYTES_MAX = 2 * MIB;
/** Subscription ids, worker names: shown in answers and kept in memory on every node. */
export const SUBSCRIPTION_NAME_BYTES_MAX = 256;
/** Descriptions and patterns. */
export const SUBSCRIPTION_TEXT_BYTES_MAX = KIB;
/** Webhook URLs; what servers and proxies take at least. */
export const WEBHOOK_URL_BYTES_MAX = 2 * KIB;
/** Webhook requests of a node at once: each holds a socket and a body. Others wait their turn. */
export const WEBHOOK_DELIVERIES_MAX = 64;
/** Of these, to receivers that failed or were slow the last time: dead ones hold a socket for 30 s each and leave the rest to others. */
export const WEBHOOK_SLOW_DELIVERIES_MAX = 32;
/** Receivers that are remembered as slow; forgotten all at once beyond this. */
export const WEBHOOK_SLOW_RECEIVERS_MAX = 10_000;
/** Of a webhook's answer: all that is read of it is {"done":true}. A longer one is cut off and counts as failed. */
export const WEBHOOK_ANSWER_BYTES_MAX = 64 * KIB;

/** Nesting of a JSON body. Deeper: 400. */
export const JSON_DEPTH_MAX = 128;

assert(ENTRY_BYTES_MAX - COMMAND_BYTES_MAX >= 8 * RECORDS_PER_REQUEST_MAX, 'the ends of all records fit in an entry');
assert(REPLY_RING_BYTES >= 4 * INLINE_PAYLOAD_BYTES_MAX, 'several inline read answers must fit in the reply ring');
assert(REQUEST_RING_BYTES >= 4 * INLINE_PAYLOAD_BYTES_MAX, 'several inline bodies must fit in the request ring');
assert(TAIL_EVENT_BYTES_MAX < INLINE_PAYLOAD_BYTES_MAX, 'a tail event always travels inline');
