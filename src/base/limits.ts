/** Every bound of the service with its unit and reason (invariant 7). The end of the file asserts their relations. */
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
/** A token that a client sends: claims and signature of a large one. A header block holds 16 KiB. Longer: 401. */
export const SCOPED_TOKEN_BYTES_MAX = 8 * KIB;
/** Tokens of a file: about 2 MiB with usual scopes, which are compared when the file is read again. More: refused. */
export const TOKENS_PER_FILE_MAX = 4096;
/** Buckets with limits of their own in a file: as many as tokens. More: refused. */
export const LIMITED_BUCKETS_MAX = 4096;
/** Scopes of one token: each request of its holder may look at all of them, in about a microsecond. More: refused. */
export const SCOPES_PER_TOKEN_MAX = 32;
/** Operations that a scope lists: all of them twice over. More: refused. */
export const SCOPE_OPERATIONS_MAX = 16;
/** UTF-16 units of a bucket, or of names of streams, in a scope: as long as names can be. Longer: refused. */
export const SCOPE_NAME_CHARS_MAX = KIB;
/** Public keys that tokens may be signed with: those of a rotation, some times over. More: refused. */
export const JWT_KEYS_MAX = 64;
/** Keys that are tried for a token that names none, some 100 us each on the main thread. More: refused. */
export const JWT_TRIES_MAX = 2;
/** Bytes of an answer with such keys: 64 of the largest, four times over. More: the keys before stay. */
export const JWKS_BYTES_MAX = 256 * KIB;
/** UTF-16 units of the id of such a key. Longer: refused. */
export const JWT_KEY_ID_CHARS_MAX = 256;
/** UTF-16 units of the id of a token, which messages and log lines show. Longer: refused. */
export const TOKEN_ID_CHARS_MAX = 64;
/** A wish for a narrower token: what fits into one, with every character escaped. Longer: 413. */
export const NARROWING_BODY_BYTES_MAX = 16 * KIB;
/** Tokens between a narrowed one and that of its first holder, itself included: each adds an id to it. More: 403. */
export const NARROWED_DEPTH_MAX = 4;
/** Life of a token that a node signs: a year and a day. Longer: refused. */
export const NARROWED_SECONDS_MAX = 366 * 86_400;
/** Life of one in a URL, which logs and histories keep: a day. Longer: refused. */
export const URL_TOKEN_SECONDS_MAX = 86_400;
/** Keys with which nodes sign: those of a rotation, some times over. More: refused. */
export const SIGNING_KEYS_MAX = 8;
/** Usage meter: one write unit. Part of the contract, never configurable. */
export const WRITE_UNIT_BYTES = 10_240;
/** Version of the usage report. */
export const USAGE_VERSION = 1;

/** A larger payload is transferred outside the ring, so that one request cannot fill it. */
export const INLINE_PAYLOAD_BYTES_MAX = 256 * KIB;
/** Main -> shard ring: about 10,000 small appends. Beyond it the shard is over a turn behind, and 503 is right. */
export const REQUEST_RING_BYTES = 8 * MIB;
/** Shard -> main ring: holds dozens of read replies of INLINE_PAYLOAD_BYTES_MAX while main writes to sockets. */
export const REPLY_RING_BYTES = 16 * MIB;
/** Command bytes that one turn takes from the ring: bounds the log's record and the latency of the turn's requests. */
export const TURN_BYTES_MAX = 4 * MIB;

/**
 * Commands of a turn become Raft entries of about this size, or one entry for a larger command alone. One message
 * between nodes carries this much anyway, so no entry waits for more than itself.
 */
export const ENTRY_FILL_BYTES = MIB;
/**
 * Command of a client or a peer before it is normalised: the largest body, and head, names, attributes and producer
 * from a header block of 16 KiB. Larger: 413.
 */
export const COMMAND_BYTES_MAX = BODY_BYTES_MAX + 64 * KIB;
/** Data of one Raft entry: the largest command, and where each of its records ends (4 bytes each). */
export const ENTRY_BYTES_MAX = COMMAND_BYTES_MAX + MIB;

/**
 * A leader cuts commands larger than this into pieces of this size, of one log entry each or several together. A piece
 * is written and synced within about a millisecond, so what comes beside it waits no longer than beside small commands.
 */
export const PIECE_BYTES_MAX = 256 * KIB;
/** Pieces that one turn of a cluster's node takes, over all groups of a shard; one piece while others wait for them. */
export const TURN_PIECES_BYTES_MAX = 512 * KIB;
/** The same of a single node without other requests: a sync of so much takes some milliseconds. */
export const ALONE_PIECES_BYTES_MAX = 2 * MIB;
/**
 * A group's pieces wait while this much of it is proposed and not applied: small commands queue behind what is on its
 * way to the followers. Enough to fill two turns and two links.
 */
export const PIECES_IN_FLIGHT_BYTES_MAX = MIB;
/** Large commands that a group's leader keeps until they are cut: four of the largest. More: 503. */
export const LARGE_WAITING_BYTES_MAX = 4 * BODY_BYTES_MAX;
/**
 * Changed bytes of a group with which no large command begins: they are written first. So the memory of a group is that
 * of one large command in pieces, one applied and one being written.
 */
export const LARGE_BEGINS_BYTES_MAX = 8 * MIB;

/** Proposed, uncommitted bytes of a group; above the bodies that may be in flight, so the HTTP side refuses first. */
export const UNCOMMITTED_BYTES_MAX = 512 * MIB;
/** Frames of one append-batch. Each may be refused individually, so each costs a result. More: 413. */
export const BATCH_FRAMES_MAX = 512;
/** Records of one request. Each costs an index entry, and all are applied at once. More: 413. */
export const RECORDS_PER_REQUEST_MAX = 100_000;

/** Largest body of one read answer unless a single record is larger; clients continue from Stream-Next-Offset. */
export const READ_BYTES_MAX = MIB;
/**
 * Answers to reads that the main thread keeps for other readers (gateway/read-cache.ts): 64 of the largest usual
 * size, and a tenth of what a node with a million streams takes.
 */
export const READ_CACHE_BYTES_MAX = 64 * MIB;
/** Smaller answers are not kept: the shard collects and copies this much in a few microseconds. */
export const READ_CACHE_ANSWER_BYTES_MIN = 4 * KIB;
/** Nor are larger ones, of a single record. */
export const READ_CACHE_ANSWER_BYTES_MAX = 2 * READ_BYTES_MAX;
/** Events for readers that catch up, with the ranges that they were rendered from (topics/rendered-events.ts). */
export const RENDERED_EVENTS_BYTES_MAX = 32 * MIB;
/** Messages or records of one answer in parts: 256 KiB of ends at most. */
export const PARTS_MAX = 65_536;
/** Streams in one page of a bucket listing. */
export const LIST_LIMIT_MAX = 1000;
/**
 * Largest value in LMDB that is written often: exactly one overflow page (4096 less LMDB's 24-byte page header). Values
 * of several pages need runs of free pages; to find them LMDB loads its whole free list and writes it back with every
 * commit (measured: 1.3 MB per commit instead of 0.1 MB after a minute of load).
 */
export const PAGE_VALUE_BYTES = 4072;
/** Payload of a chunk: the minimum that one cold read fetches, and one full read answer. */
export const COLD_CHUNK_BYTES = MIB;
/**
 * Slices of one object. Each costs a chunk row and another stream's head when the flush is applied (about 20 µs
 * together), so this bounds a shard's pause at some 20 ms.
 */
export const FLUSH_SLICES_MAX = 1024;
/** Encoded list of a flush, a command like any other; only streams with long names reach it. */
export const FLUSH_LIST_BYTES_MAX = 512 * KIB;
/** Fewest chunks of a stream to merge into one; streams of tiny chunks are then read with one request for sixteen. */
export const COMPACT_RUN_MIN = 16;
/**
 * Maximum number. Each is a request to the store when it is merged. A run this long is merged whatever the sizes, so a
 * reader needs no more requests than this per MiB.
 */
export const COMPACT_RUN_MAX = 256;
/** Chunks merged by one job: applying the command deletes as many rows, some 10 ms. */
export const COMPACT_CHUNKS_MAX = 512;
/** S3 allows object keys of 1024 bytes; ours fit in one row and in a sentence, with space for storage.cold.root. */
export const OBJECT_KEY_BYTES_MAX = 255;
/** Chunks in one cold answer, unless a single record spans more: each is a request to the store. */
export const COLD_REFS_MAX = 32;
/** Chunks after an answer that the plan names for read-ahead: at most 16 MiB ahead of a replay. */
export const COLD_AHEAD_CHUNKS = 16;
/** Chunks released by the command that removes a stream; the rest of a long one follows with the expire commands. */
export const RELEASE_CHUNKS_AT_ONCE = 256;
/** Chunks released by one expire command. Each has two or three rows, so it takes some 10 ms. */
export const RELEASE_CHUNKS_PER_EXPIRE = 1024;

/**
 * Snapshots that a shard sends at once, in total and per node. Each holds an LMDB read transaction open, which prevents
 * reuse of old pages, and needs a checkpoint of its group first. A node that lost its disk needs one of every group,
 * and they share one rate anyway. Two in total, so that one stalled receiver does not delay another node.
 */
export const SNAPSHOTS_SENT_MAX = 2;
export const SNAPSHOTS_SENT_PER_NODE_MAX = 1;

/** Format of group snapshots and manifests (src/backup/format/document.ts); a newer one is refused. */
export const BACKUP_FORMAT_VERSION = 1;
export const BACKUP_CONTENT_TYPE = 'application/x-msgpack';
/**
 * Exports that a shard runs at once. Each holds an LMDB read transaction open, so pages replaced meanwhile are not
 * reused and the file grows by what is written. A backup takes one group after the other.
 */
export const EXPORTS_MAX = 2;
/** Bytes of an export between its thread and the socket: a few pieces, so that neither waits for the other. */
export const EXPORT_WINDOW_BYTES = MIB;
/**
 * Bytes per second of all exports of a node that also serves clients. On two cores they then take, with the tool, a
 * fifth of the machine instead of all idle time, which cost appends half of their p99 (bench backup-load).
 */
export const EXPORT_BUSY_BYTES_PER_SECOND = 16 * MIB;
/** Rows of a backup in one replicated command. */
export const IMPORT_PIECE_BYTES = MIB - 64 * KIB;

/** Buckets whose quota flag a node remembers, some 300 bytes each; the oldest are queried again. */
export const QUOTA_BUCKETS_MAX = 65_536;
/** Writes that wait for the groups' answer about their bucket's quota, in number and bytes. More: 503. */
export const QUOTA_HELD_MAX = 10_000;
export const QUOTA_HELD_BYTES_MAX = 64 * MIB;

/** Bytes that forks under construction inherit, per node; a larger fork is created alone. More: 503. */
export const FORK_BYTES_IN_MAKING_MAX = 64 * MIB;
/** Bytes per second that all forks of a node copy: each byte is read, sent to all nodes and written by each. */
export const FORK_BYTES_PER_SECOND = 32 * MIB;
/** Forks that a node creates at once; each holds a piece of its source, a MiB or a message, and its body. More: 503. */
export const FORKS_IN_MAKING_MAX = 32;
/** Forks of unknown outcome that a node undoes at once, each a kilobyte; others end after 15 s of silence. */
export const FORKS_UNDOING_MAX = 1024;
/** Sources notified per pass and shard, each with two commands: enough for hundreds of forks that expire together. */
export const FORK_NOTIFICATIONS_MAX = 64;
/** Forks verified per pass and shard, with a command each, and only occasionally: about one a second. */
export const FORK_PIN_CHECKS_MAX = 16;

/** Receipts kept per producer; older duplicates get the current tail. */
export const PRODUCER_RECEIPTS = 5;
/** Bytes a live reader may have buffered in its socket before it is moved to catch-up reads. */
export const READER_BUFFER_BYTES_MAX = MIB;
/** A reader whose socket took nothing for this long is gone, also one that still sends: three times what a write has. */
export const READER_STALL_MS_MAX = 30_000;
/** Larger tail events carry no bytes; readers fetch them with a read, so one event cannot flood the reply ring. */
export const TAIL_EVENT_BYTES_MAX = 64 * KIB;

/**
 * One message of a session. It is whole in memory before any of it is read, so this bounds what hostile halves of messages
 * hold (2 GiB for SESSIONS_MAX). Larger: the session ends; HTTP takes more.
 */
export const SESSION_MESSAGE_BYTES_MAX = 256 * KIB;
/**
 * A frame with an append that may be under way beside others of its stream. A larger one waits for them, and they for
 * it, because large bodies travel apart from small ones: to a leader, in the JSON pool, and outside the ring.
 */
export const SESSION_PIPELINED_BYTES_MAX = 32 * KIB;
/** The command of such a frame: a batch has four bytes for the length of each message, and every command a head. */
export const SESSION_PIPELINED_COMMAND_BYTES_MAX = SESSION_PIPELINED_BYTES_MAX + 4 * BATCH_FRAMES_MAX + KIB;
/** Sessions of a node: many programs, or the browsers' tabs of 5,000 users who follow one stream. More: 503. */
export const SESSIONS_MAX = 8192;
/** Requests of a session without an answer: 200,000 a second when an answer takes 5 ms. More: 429. */
export const SESSION_REQUESTS_MAX = 1024;
/** Bytes of these requests: four of the largest messages. More: 429. */
export const SESSION_IN_FLIGHT_BYTES_MAX = 4 * SESSION_MESSAGE_BYTES_MAX;
/** Bytes that the reads of a session may bring together: eight of the largest usual answers. More: 429. */
export const SESSION_READ_BYTES_MAX = 8 * READ_BYTES_MAX;
/** A read counts as this at least, because one record may be larger than what was asked for: 128 reads are enough. */
export const SESSION_READ_BYTES_MIN = 64 * KIB;
/** Subscriptions of a session, two KiB each on two threads: 100,000 fit on a handful of sockets. More: 429. */
export const SESSION_SUBSCRIPTIONS_MAX = 16_384;
/**
 * Bytes that subscriptions of a session read at once: eight steps keep a socket busy, and a thousand subscriptions that
 * begin together do not fill it. The others wait for their turn.
 */
export const SESSION_FOLLOW_BYTES_MAX = 2 * MIB;
/** Bytes that a client lets a subscription send it ahead; more than this counts as this. */
export const SESSION_CREDIT_BYTES_MAX = 64 * MIB;
/**
 * A client that has left so much untaken has stopped reading: its session ends. Reads and events stop far below; the
 * last of them may be a record of the largest size, behind which 16 MiB are left for reads under way and other answers.
 */
export const SESSION_UNSENT_BYTES_MAX = BODY_BYTES_MAX + 16 * MIB;
/**
 * The same while the node has all the unsent answers that it may have: acknowledgements and refusals cannot wait, so
 * that all sessions together go 256 MiB beyond it.
 */
export const SESSION_UNSENT_WHEN_FULL_BYTES_MAX = 64 * KIB;
/** Silence after which a session is pinged, and ends when no answer comes: below the minute after which proxies cut. */
export const SESSION_IDLE_SECONDS = 32;

/** Subscriptions of a cluster: every node builds all of them from one log in memory. More: 429. */
export const SUBSCRIPTIONS_MAX = 10_000;
/** Streams of one subscription: a wake lists all of them in one body. More are refused, or not linked and counted. */
export const SUBSCRIPTION_LINKS_MAX = 10_000;
/** All subscriptions in a checkpoint of their log: one append, so well below BODY_BYTES_MAX. More: 429. */
export const SUBSCRIPTION_STATE_BYTES_MAX = 16 * MIB;
/** Body of a subscription request: SUBSCRIPTION_LINKS_MAX acks of usual names. Larger: 413. */
export const SUBSCRIPTION_BODY_BYTES_MAX = 2 * MIB;
/** Subscription ids, worker names: shown in answers and kept in memory on every node. */
export const SUBSCRIPTION_NAME_BYTES_MAX = 256;
/** Descriptions and patterns. */
export const SUBSCRIPTION_TEXT_BYTES_MAX = KIB;
/** Webhook URLs; the minimum that servers and proxies accept. */
export const WEBHOOK_URL_BYTES_MAX = 2 * KIB;
/** Webhook requests of a node at once: each holds a socket and a body. Others wait their turn. */
export const WEBHOOK_DELIVERIES_MAX = 64;
/**
 * Deliveries at a time to receivers that failed or were slow last time. Dead receivers hold a socket for 30 s each; the
 * rest stays available to others.
 */
export const WEBHOOK_SLOW_DELIVERIES_MAX = 32;
/** Receivers remembered as slow; all are forgotten at once beyond this. */
export const WEBHOOK_SLOW_RECEIVERS_MAX = 10_000;
/** Bytes read of a webhook's answer, which need only be {"done":true}. A longer one is cut off and counts as failed. */
export const WEBHOOK_ANSWER_BYTES_MAX = 64 * KIB;

/** Larger JSON bodies are checked in a pool: smaller ones take a shard a millisecond. */
export const JSON_POOLED_BYTES_MIN = 256 * KIB;
/** Bytes of JSON bodies that are being checked: four of the largest. More: 503. */
export const JSON_POOLED_BYTES_MAX = 4 * BODY_BYTES_MAX;

/** Nesting of a JSON body. Deeper: 400. */
export const JSON_DEPTH_MAX = 128;

assert(ENTRY_BYTES_MAX - COMMAND_BYTES_MAX >= 8 * RECORDS_PER_REQUEST_MAX, 'the ends of all records fit in an entry');
assert(PIECE_BYTES_MAX <= ENTRY_FILL_BYTES, 'a piece fits in an entry of the usual size');
assert(REPLY_RING_BYTES >= 4 * INLINE_PAYLOAD_BYTES_MAX, 'several inline read answers must fit in the reply ring');
assert(REQUEST_RING_BYTES >= 4 * INLINE_PAYLOAD_BYTES_MAX, 'several inline bodies must fit in the request ring');
assert(TAIL_EVENT_BYTES_MAX < INLINE_PAYLOAD_BYTES_MAX, 'a tail event always travels inline');
assert(
  SESSION_PIPELINED_COMMAND_BYTES_MAX <= Math.min(INLINE_PAYLOAD_BYTES_MAX, JSON_POOLED_BYTES_MIN),
  'appends of a session that are under way together stay in the ring, which keeps their order',
);
