/** Bodies of requests and answers, as JSON Schema. */
import {
  NARROWED_SECONDS_MAX,
  SCOPES_PER_TOKEN_MAX,
  SUBSCRIPTION_LINKS_MAX,
  SUBSCRIPTION_NAME_BYTES_MAX,
  SUBSCRIPTION_TEXT_BYTES_MAX,
  WEBHOOK_URL_BYTES_MAX,
} from '../../src/base/limits.ts';
import { SCOPED_OPERATIONS } from '../../src/base/scopes.ts';
import { EXPORT_END_CODES } from '../../src/backup/ports.ts';

type Schema = Readonly<Record<string, unknown>>;

const TEXT: Schema = { type: 'string' };
const YES_NO: Schema = { type: 'boolean' };
const COUNT: Schema = { type: 'integer', minimum: 0 };
const GROUP: Schema = { type: 'integer', minimum: 0, description: 'Number of the group.' };
const NODE: Schema = { type: 'integer', minimum: 1, description: 'Id of a node.' };
const OFFSET: Schema = { type: 'string', pattern: '^[0-9]{20}$', example: '00000000000000000006' };
/** Its numbers are those of the text: a program that parses them as doubles may lose digits. */
const JSON_VALUE: Schema = { type: ['null', 'boolean', 'number', 'string', 'array', 'object'] };
const listOf = (items: Schema, more: Schema = {}): Schema => ({ type: 'array', items, ...more });
const orNull = (type: string, more: Schema = {}): Schema => ({ type: [type, 'null'], ...more });

/** All members are there, but for the optional ones. */
function object(properties: Readonly<Record<string, Schema>>, more: Schema = {}): Schema {
  return { type: 'object', required: Object.keys(properties), properties, ...more };
}

function partial(properties: Readonly<Record<string, Schema>>, required: readonly string[] = []): Schema {
  return { type: 'object', properties, ...(required.length === 0 ? {} : { required }) };
}

function withOptional(schema: Schema, properties: Readonly<Record<string, Schema>>): Schema {
  return { ...schema, properties: Object.assign({}, schema['properties'], properties) };
}

const link = { path: TEXT, link_type: { type: 'string', enum: ['explicit', 'glob'] }, acked_offset: OFFSET };
/** A stream of a wake, as webhooks and workers see it. */
const woken = object({ ...link, tail_offset: OFFSET, has_pending: YES_NO });
const paths = listOf(TEXT, { maxItems: SUBSCRIPTION_LINKS_MAX, example: ['shop/orders'] });
const lease: Schema = { type: 'integer', minimum: 1000, maximum: 600_000, default: 30_000 };
const shortText: Schema = { type: 'string', maxLength: SUBSCRIPTION_TEXT_BYTES_MAX };

const ingressLimit = object({ error: { type: 'string', enum: ['IngressBodyBytesLimitReached'] } });
/** The last two with ALREADY_CLAIMED. */
const refusal = { code: TEXT, message: shortText, current_holder: TEXT, generation: COUNT };
const subscriptionError = object({ error: partial(refusal, ['code', 'message']) });

export const SCHEMAS = {
  Bytes: { description: 'Bytes as they were stored, or as they are to be stored.' },
  Sentence: { type: 'string', description: 'One sentence that says what to change.' },
  Events: {
    type: 'string',
    description:
      'Server-sent events: `data` with bytes of the stream, then `control` with `streamNextOffset`, `streamCursor`, `upToDate` and `streamClosed`.',
  },
  Value: { ...JSON_VALUE, description: 'A value of JSON, or an array of values, each of which becomes a record.' },
  Records: {
    description: 'Records of a JSON stream; with `record_view=envelope` each with its ordinal.',
    anyOf: [listOf(JSON_VALUE), listOf(object({ record: COUNT, value: JSON_VALUE }))],
  },
  Frames: {
    type: 'string',
    description: 'Up to 512 frames: four bytes of length, big-endian, then that many bytes.',
  },
  FrameResults: listOf(
    partial({ status: { type: 'integer' }, stream_record_start: COUNT, stream_record_next: COUNT }, ['status']),
    { description: 'What became of each frame.' },
  ),
  Parts: {
    type: 'string',
    description: 'The published snapshot, if there is one, then every message or record behind it as a part.',
  },
  Attributes: partial({ title: TEXT, metadata: { type: 'object' } }),
  Bucket: object({ bucket_id: TEXT, streams: COUNT }),
  StreamList: object({
    bucket_id: TEXT,
    prefix: TEXT,
    stream_count: COUNT,
    streams: listOf(
      object({
        stream_id: TEXT,
        status: { type: 'string', enum: ['Open', 'Closed'] },
        content_type: TEXT,
        tail_offset: COUNT,
        created_at_ms: COUNT,
        last_write_at_ms: COUNT,
      }),
    ),
    next_cursor: orNull('string'),
    has_more: YES_NO,
  }),
  IngressLimit: ingressLimit,
  // Subscriptions.
  SubscriptionRequest: partial(
    {
      type: { type: 'string', enum: ['webhook', 'pull-wake'] },
      pattern: orNull('string', { maxLength: SUBSCRIPTION_TEXT_BYTES_MAX, example: 'shop/*' }),
      streams: paths,
      webhook: partial({
        url: { type: 'string', maxLength: WEBHOOK_URL_BYTES_MAX, example: 'https://hooks.example.com/millrace' },
      }),
      wake_stream: orNull('string', { example: 'wake/pool' }),
      lease_ttl_ms: lease,
      description: orNull('string', { maxLength: SUBSCRIPTION_TEXT_BYTES_MAX }),
    },
    ['type'],
  ),
  Subscription: withOptional(
    object({
      id: TEXT,
      subscription_id: TEXT,
      type: { type: 'string', enum: ['webhook', 'pull-wake'] },
      pattern: orNull('string'),
      streams: listOf(object(link)),
      webhook: {
        description: 'Null for workers.',
        oneOf: [
          { type: 'null' },
          object({ url: TEXT, signing: object({ alg: { const: 'ed25519' }, kid: TEXT, jwks_url: TEXT }) }),
        ],
      },
      wake_stream: orNull('string'),
      lease_ttl_ms: lease,
      created_at: { type: 'string', format: 'date-time' },
      status: { type: 'string', enum: ['active', 'failed'] },
    }),
    { description: TEXT },
  ),
  StreamPaths: object({ streams: { ...paths, minItems: 1 } }),
  Claim: object({ worker: { type: 'string', minLength: 1, maxLength: SUBSCRIPTION_NAME_BYTES_MAX } }),
  Claimed: object({ wake_id: TEXT, generation: COUNT, token: TEXT, streams: listOf(woken), lease_ttl_ms: lease }),
  Acknowledgement: partial(
    {
      wake_id: TEXT,
      generation: COUNT,
      acks: listOf(object({ stream: TEXT, offset: { ...OFFSET, pattern: '^[0-9]+$' } }), {
        maxItems: SUBSCRIPTION_LINKS_MAX,
      }),
      done: { type: 'boolean', default: false },
    },
    ['wake_id', 'generation'],
  ),
  Acknowledged: object({ ok: { const: true }, next_wake: YES_NO }),
  Wake: object(
    {
      subscription_id: TEXT,
      wake_id: TEXT,
      generation: COUNT,
      streams: listOf(woken),
      callback_url: TEXT,
      callback_token: TEXT,
    },
    { description: 'The body of a webhook.' },
  ),
  KeySet: object(
    {
      keys: listOf(
        object({
          ...{ kty: { const: 'OKP' }, crv: { const: 'Ed25519' }, kid: TEXT },
          ...{ use: { const: 'sig' }, alg: { const: 'EdDSA' }, x: TEXT },
        }),
      ),
    },
    { description: 'A JWK Set of Ed25519 keys (RFC 7517).' },
  ),
  SubscriptionError: subscriptionError,
  SubscriptionsFull: {
    description: 'What the node says before the subscriptions are asked, or they themselves.',
    oneOf: [ingressLimit, subscriptionError],
  },
  // The node.
  Health: object({ status: { const: 'up' } }),
  Ready: partial(
    {
      ready: YES_NO,
      groups: COUNT,
      leaderless_groups: listOf(GROUP),
      groups_behind: listOf(GROUP),
      disk_slow: YES_NO,
    },
    ['ready'],
  ),
  NarrowingWish: partial(
    {
      scopes: listOf(
        partial(
          {
            bucket: { ...TEXT, example: 'shop' },
            stream: TEXT,
            streams: { ...TEXT, example: 'orders-*' },
            operations: listOf({ type: 'string', enum: [...SCOPED_OPERATIONS] }),
          },
          ['bucket', 'operations'],
        ),
        { minItems: 1, maxItems: SCOPES_PER_TOKEN_MAX },
      ),
      expires_in: {
        type: 'integer',
        minimum: 1,
        maximum: NARROWED_SECONDS_MAX,
        description: 'Seconds; in a URL at most a day.',
      },
      use: { type: 'string', enum: ['url'] },
    },
    ['scopes', 'expires_in'],
  ),
  NarrowedToken: object({ id: TEXT, token: TEXT, expires_at: { type: 'string', format: 'date-time' } }),
  Metrics: { type: 'object', description: 'Counters, gauges and histograms by name.' },
  Usage: object({
    version: { type: 'integer', const: 1 },
    write_unit_bytes: COUNT,
    buckets: {
      type: 'object',
      additionalProperties: object({
        committed_append_bytes: COUNT,
        committed_records: COUNT,
        committed_write_units: COUNT,
        retained_bytes: COUNT,
        stream_count: COUNT,
      }),
    },
  }),
  OpenApi: { type: 'object', description: 'This document.' },
  Shed: object({
    bits: COUNT,
    state: { type: 'string', example: 'maintenance-drain' },
    should_accept_transfer: YES_NO,
    should_campaign: YES_NO,
    should_shed_current_leaders: YES_NO,
  }),
  WebhookKeys: object({
    kid: orNull('string'),
    keys: listOf(object({ kid: TEXT, signs_from: { type: 'string', format: 'date-time' } })),
  }),
  // Tenants.
  Quota: partial({
    max_streams: orNull('integer', { minimum: 0 }),
    max_retained_bytes: orNull('integer', { minimum: 0 }),
  }),
  QuotaUse: withOptional(
    object({
      max_streams: orNull('integer', { minimum: 0 }),
      max_retained_bytes: orNull('integer', { minimum: 0 }),
      used_streams: COUNT,
      used_retained_bytes: COUNT,
    }),
    { default_max_streams: COUNT, default_max_retained_bytes: COUNT },
  ),
  Purged: object({
    bucket: TEXT,
    removed_streams: COUNT,
    groups_with_streams: listOf(GROUP),
    cold_gc_entries_reclaimed: COUNT,
  }),
  // Groups.
  Checkpointed: object({ raft_group_id: GROUP, snapshot_index: COUNT }),
  Compacted: object({ raft_group_id: GROUP, purged_index: COUNT }),
  Membership: object({ raft_group_id: GROUP, voter_ids: listOf(NODE), log_index: COUNT, changed: YES_NO }),
  Learner: partial({ raft_group_id: GROUP, node_id: NODE, log_index: COUNT, changed: YES_NO }, [
    ...['raft_group_id', 'node_id', 'log_index'],
  ]),
  Transfer: object({ raft_group_id: GROUP, from: NODE, to: NODE, transferred: YES_NO }),
  Revert: partial({ raft_group_id: GROUP, node_id: NODE, allow_next_revert: YES_NO, reason: TEXT }, [
    ...['raft_group_id', 'node_id', 'allow_next_revert'],
  ]),
  Flushed: object({ hot_start_offset: COUNT, group_commit_index: COUNT }),
  NotDone: partial(
    {
      ...{ raft_group_id: GROUP, node_id: NODE, from: NODE, to: NODE },
      current_leader: orNull('integer'),
      leader: orNull('integer'),
      ...{ changed: { const: false }, transferred: { const: false }, allow_next_revert: { const: false } },
      reason: TEXT,
    },
    ['raft_group_id', 'reason'],
  ),
  // Backup.
  BackupInfo: partial(
    {
      format_version: COUNT,
      raft_group_count: COUNT,
      cluster_id: orNull('string'),
      restored_from: listOf(TEXT),
      cold_gc_grace_ms: COUNT,
      cold_compaction_gc_grace_ms: COUNT,
      exports_running: listOf(object({ raft_group_id: GROUP, since_unix_ms: COUNT })),
      exports_finished: listOf(object({ raft_group_id: GROUP, finished_unix_ms: COUNT })),
      exports_ended_early: listOf(
        object({
          raft_group_id: GROUP,
          code: { type: 'string', enum: [...EXPORT_END_CODES] },
          reason: TEXT,
          ended_unix_ms: COUNT,
        }),
      ),
    },
    ['format_version', 'raft_group_count', 'cluster_id', 'restored_from'],
  ),
  Imported: {
    ...partial(
      {
        ...{ buckets: COUNT, streams: COUNT, group_commit_index: COUNT },
        ...{ cold_objects_sampled: COUNT, cold_objects_unreadable: COUNT, cold_reason: TEXT },
      },
      ['buckets', 'streams', 'group_commit_index'],
    ),
    description: 'What the group holds now, and how many of the objects that were tried cannot be read.',
  },
  ImportConflict: {
    ...object({
      raft_group_id: GROUP,
      reason: TEXT,
      imported_blake3: orNull('string', { pattern: '^[0-9a-f]{64}$', example: '0'.repeat(64) }),
    }),
    description: 'The group is not empty, and which backup it came from.',
  },
} as const satisfies Readonly<Record<string, Schema>>;

export type SchemaName = keyof typeof SCHEMAS;
