/** The part of the table of options that is about the cold tier. */
import { COLD_AHEAD_CHUNKS } from '../base/limits.ts';
import * as kind from './kinds.ts';
import { option, optional } from './kinds.ts';
import { DAY_MS, GIB, HOUR_MS, KIB, MIB, MINUTE_MS, SECOND_MS } from './values.ts';

export const COLD_OPTIONS = {
  'storage.cold.backend': option(
    kind.choice('none', 'dir', 's3'),
    'none',
    'Where old bytes go: nowhere, to a directory, or to a bucket of S3 or a store that speaks its protocol.',
  ),
  'storage.cold.root': optional(
    kind.keyPrefix,
    'In front of every object key. All nodes of a cluster have the same; no two clusters do.',
  ),
  'storage.cold.dir': optional(
    kind.path,
    'Directory of the `dir` backend; the nodes of a cluster share it. A single node may leave it out.',
    { defaultNote: '`cold` in storage.data_dir' },
  ),
  'storage.cold.encryption_recipients_file': optional(
    kind.path,
    'Recipients of age (`age1...`), one a line, for whom new objects are [encrypted](../encryption/README.md#cold-objects). SIGHUP reads it again.',
  ),
  'storage.cold.encryption_identity_file': optional(
    kind.path,
    'Identities of age (`AGE-SECRET-KEY-1...`), one a line, that open encrypted objects: the same on all nodes. SIGHUP reads it again.',
  ),
  'storage.cold.max_hot_size_per_group': option(
    kind.size(0, 1024 * GIB),
    64 * MIB,
    'Bytes of a group not yet in the cold store before its writes are answered 503; 0 is no bound.',
  ),
  'storage.cold.flush_interval': option(
    kind.duration(10, HOUR_MS),
    SECOND_MS,
    'Bytes of a stream that are this old move to the cold store.',
  ),
  'storage.cold.flush_size': option(
    kind.size(1, GIB),
    8 * MIB,
    'Hot bytes of a group from which on they move at once, whatever their age.',
  ),
  'storage.cold.flush_max_size': option(
    kind.size(64 * KIB, 64 * MIB),
    8 * MIB,
    'Size of one object, unless a single message is larger.',
  ),
  'storage.cold.flush_max_concurrency': option(
    kind.integer(1, 64),
    4,
    'Uploads at once, shared by the cores; each has at least one.',
  ),
  'storage.cold.gc_interval': option(
    kind.duration(10, HOUR_MS),
    5 * SECOND_MS,
    'How often objects that nothing refers to any more are deleted.',
  ),
  'storage.cold.gc_max_entries': option(kind.integer(1, 1000), 256, 'Objects of one group deleted in one go.'),
  'storage.cold.gc_grace': option(
    kind.duration(0, 400 * DAY_MS),
    MINUTE_MS,
    'How long such objects are kept for reads that are under way, and for backups that refer to them. A purge does not wait.',
  ),
  'storage.cold.sweep_interval': option(
    kind.duration(100, 30 * DAY_MS),
    HOUR_MS,
    'How often the store is searched for objects of writes that failed half-way.',
  ),
  'storage.cold.sweep_grace': option(
    kind.duration(100, 30 * DAY_MS),
    HOUR_MS,
    'Age before which an object is not taken for one of those; above the longest upload.',
  ),
  'storage.cold.compaction_enabled': option(
    kind.boolean,
    true,
    'Small chunks of streams that grow slowly are merged, so that reading them takes few requests.',
  ),
  'storage.cold.compaction_gc_grace': option(
    kind.duration(0, 400 * DAY_MS),
    7 * DAY_MS,
    'How long objects are kept whose chunks were merged into others: the age of the oldest backup that you may want to restore.',
  ),
  'storage.cold.cache.max_size': option(
    kind.size(0, 1024 * GIB),
    256 * MIB,
    'Memory for bytes read from the cold store; 0 is none.',
  ),
  'storage.cold.cache.readahead_blocks': option(
    kind.integer(0, COLD_AHEAD_CHUNKS),
    8,
    'Chunks of 1 MiB that are fetched ahead of a sequential reader; needs a cache.',
  ),
  'storage.cold.s3.bucket': optional(kind.text, 'Bucket of the `s3` backend.'),
  'storage.cold.s3.region': optional(kind.text, 'Region; otherwise that of the environment.', {
    defaultNote: '`us-east-1` with an endpoint',
  }),
  'storage.cold.s3.endpoint': optional(kind.url, 'Address of a store other than AWS.'),
  'storage.cold.s3.path_style': optional(kind.boolean, 'Bucket in the path of the address, not in its host name.', {
    defaultNote: 'true with an endpoint',
  }),
  'storage.cold.s3.access_key_id': optional(kind.token, 'Credentials; otherwise those of the environment.'),
  'storage.cold.s3.secret_access_key': optional(kind.token, 'Credentials; otherwise those of the environment.'),
  'storage.cold.s3.session_token': optional(kind.token, 'Credentials; otherwise those of the environment.'),
  'storage.cold.s3.server_side_encryption': option(
    kind.choice('aes256', 'aws-kms', 'none'),
    'aes256',
    'Encryption the store is asked for.',
  ),
  'storage.cold.s3.kms_key_id': optional(kind.text, 'Key for `aws-kms`.'),
  'storage.cold.s3.timeout': option(
    kind.duration(100, 10 * MINUTE_MS),
    10 * SECOND_MS,
    'Bound of one operation with all its repeats.',
  ),
  'storage.cold.s3.max_retries': option(kind.integer(0, 100), 3, 'Repeats of a failed operation.'),
} as const;
