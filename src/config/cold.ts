/** The cold tier's part of `Config`. */
import { join, resolve } from 'node:path';
import { identitiesIn, recipientsIn } from './age-keys.ts';
import { ConfigError } from './error.ts';
import { refuse } from './kinds.ts';
import type { OptionValues } from './options.ts';

export type ColdConfig = Readonly<ReturnType<typeof coldOf>>;

type Credentials = {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken: string | undefined;
};

export function coldOf(values: OptionValues) {
  const backend = values['storage.cold.backend'];
  if (backend === 'dir' && values['storage.cold.dir'] === undefined && values['raft.peers'].length > 1) {
    throw refuse(
      'storage.cold.dir',
      undefined,
      'a directory that all nodes of raft.peers share (storage.cold.backend is "dir")',
    );
  }
  if (backend === 's3' && values['storage.cold.s3.bucket'] === undefined)
    throw refuse('storage.cold.s3.bucket', undefined, 'a bucket, because storage.cold.backend is "s3"');
  const flushBytes = values['storage.cold.flush_size'];
  const maxHotBytesPerGroup = values['storage.cold.max_hot_size_per_group'];
  if (backend !== 'none' && maxHotBytesPerGroup > 0 && flushBytes > maxHotBytesPerGroup) {
    throw new ConfigError(
      'storage.cold.flush_size: expected at most storage.cold.max_hot_size_per_group, or writes would be refused before bytes move',
    );
  }
  return {
    backend,
    root: values['storage.cold.root'] ?? '',
    dir: values['storage.cold.dir'] ?? join(resolve(values['storage.data_dir']), 'cold'),
    keys: keysOf(values),
    maxHotBytesPerGroup,
    flushIntervalMs: values['storage.cold.flush_interval'],
    flushBytes,
    flushBytesMax: values['storage.cold.flush_max_size'],
    uploadsMax: values['storage.cold.flush_max_concurrency'],
    gcIntervalMs: values['storage.cold.gc_interval'],
    gcEntriesMax: values['storage.cold.gc_max_entries'],
    gcGraceMs: values['storage.cold.gc_grace'],
    mergedGraceMs: values['storage.cold.compaction_gc_grace'],
    sweepIntervalMs: values['storage.cold.sweep_interval'],
    sweepGraceMs: values['storage.cold.sweep_grace'],
    compaction: values['storage.cold.compaction_enabled'],
    cacheBytesMax: values['storage.cold.cache.max_size'],
    readAheadChunks: values['storage.cold.cache.readahead_blocks'],
    s3: s3Of(values),
  };
}

/** Keys of age for objects; undefined: none are encrypted. */
function keysOf(values: OptionValues) {
  const path = values['storage.cold.encryption_identity_file'];
  const recipientsPath = values['storage.cold.encryption_recipients_file'];
  if (path === undefined) {
    if (recipientsPath === undefined) return undefined;
    throw refuse(
      'storage.cold.encryption_identity_file',
      undefined,
      'the identity of a recipient in storage.cold.encryption_recipients_file, because nodes read what they write',
    );
  }
  return {
    identities: identitiesIn(path, 'storage.cold.encryption_identity_file'),
    recipients:
      recipientsPath === undefined ? [] : recipientsIn(recipientsPath, 'storage.cold.encryption_recipients_file'),
  };
}

function s3Of(values: OptionValues) {
  const endpoint = values['storage.cold.s3.endpoint'];
  return {
    bucket: values['storage.cold.s3.bucket'] ?? '',
    region: values['storage.cold.s3.region'],
    endpoint,
    pathStyle: values['storage.cold.s3.path_style'] ?? endpoint !== undefined,
    credentials: credentialsOf(values),
    encryption: values['storage.cold.s3.server_side_encryption'],
    kmsKeyId: values['storage.cold.s3.kms_key_id'],
    timeoutMs: values['storage.cold.s3.timeout'],
    maxRetries: values['storage.cold.s3.max_retries'],
  };
}

/** Half of a pair would silently be replaced by other credentials of the environment. */
function credentialsOf(values: OptionValues): Credentials | undefined {
  const accessKeyId = values['storage.cold.s3.access_key_id'];
  const secretAccessKey = values['storage.cold.s3.secret_access_key'];
  const sessionToken = values['storage.cold.s3.session_token'];
  if (accessKeyId !== undefined && secretAccessKey !== undefined) return { accessKeyId, secretAccessKey, sessionToken };
  if (accessKeyId === undefined && (secretAccessKey !== undefined || sessionToken !== undefined))
    throw refuse('storage.cold.s3.access_key_id', undefined, 'the id of the other credentials that are set');
  if (accessKeyId !== undefined)
    throw refuse('storage.cold.s3.secret_access_key', undefined, 'the secret of storage.cold.s3.access_key_id');
  return undefined;
}
