/** backup-create, backup-verify and restore. */
import { CONFIG, type Verb, asking, textFlag } from '../context.ts';
import { OUTPUT } from '../output.ts';

const LOCATION = textFlag('DIR|s3://BUCKET/PREFIX', 'where the backup lies', { required: true });
/** A node that reads a large snapshot answers small calls late. */
const TIMEOUT_SECONDS = 30;
const IDENTITY = textFlag('FILE', 'file with the identity of age for an encrypted backup');
const RECIPIENTS = textFlag('FILE', 'encrypt the backup for the recipients of age in it');
const CREATED = textFlag('MS', 'time to write into the manifest, in ms since 1970');

export const backupCreate: Verb = {
  name: 'backup-create',
  about: 'write a snapshot of every group, and a manifest, to a location that is empty',
  examples: [
    'millracectl backup-create --location /var/backups/millrace/2026-11-21',
    'millracectl backup-create --location s3://backups/millrace/2026-11-21 --json',
  ],
  flags: {
    config: CONFIG,
    location: LOCATION,
    'recipients-file': RECIPIENTS,
    'created-unix-ms': CREATED,
    ...OUTPUT,
    ...asking(TIMEOUT_SECONDS),
  },
  run: async (context) => await (await import('../backup.ts')).createBackup(context),
};

export const backupVerify: Verb = {
  name: 'backup-verify',
  about: 'check that a backup is complete, unaltered and restorable; asks no cluster',
  examples: ['millracectl backup-verify --location s3://backups/millrace/2026-11-21'],
  flags: { location: LOCATION, 'identity-file': IDENTITY, ...OUTPUT },
  run: async (context) => await (await import('../backup.ts')).checkBackup(context),
};

export const restore: Verb = {
  name: 'restore',
  about: 'bring a backup into a fresh cluster with as many groups',
  examples: [
    'millracectl restore --config drill.toml --location /var/backups/millrace/2026-11-21',
    'millracectl restore --config drill.toml --location /var/backups/millrace/2026-11-21 --resume',
  ],
  flags: {
    config: CONFIG,
    location: LOCATION,
    'identity-file': IDENTITY,
    resume: { kind: 'switch', about: 'go on with a restore that was interrupted' },
    'adopt-cold-objects': {
      kind: 'switch',
      about: 'the source is gone for good: delete its objects when nothing refers to them',
    },
    'created-unix-ms': { ...CREATED, about: 'ignored' },
    ...OUTPUT,
    ...asking(TIMEOUT_SECONDS),
  },
  run: async (context) => await (await import('../backup.ts')).restoreBackup(context),
};
