/** The work of the verbs about backups. Loaded when one of them runs, because most calls need nothing of it. */
import { type Location, LocationFault, unfinished } from '../backup/format/location.ts';
import { type BackupOptions, openBackup } from '../backup/format/sealed-location.ts';
import { type GroupEntry, MANIFEST, type Manifest, objectName, writeManifest } from '../backup/format/manifest.ts';
import { createGroup, endUnfinished, sendOrder } from '../backup/tool/create.ts';
import { coldNote, infoOf, lineageOf } from '../backup/tool/info.ts';
import { checkFree, checkResumable, restoreGroups } from '../backup/tool/restore.ts';
import { verifyBackup } from '../backup/tool/verify.ts';
import { identitiesIn, recipientsIn } from '../config/age-keys.ts';
import { ConfigError } from '../config/error.ts';
import type { Cluster } from '../nodes/cluster.ts';
import { Failure, Interrupted, UsageError } from '../nodes/failure.ts';
import { Fault } from '../stream/backup/fault.ts';
import { type Context, openCluster } from './context.ts';
import { wantsJson } from './output.ts';
import type { ProgressBar } from './progress-bar.ts';
import { whyLeaderless } from './ready.ts';
import { settle } from './waiting.ts';

const MIB = 1024 * 1024;
/** An election takes one to two seconds. */
const LEADERS_WAIT_MS = 10_000;
const LEADERS_LOOK_MS = 500;

export async function createBackup(context: Context): Promise<void> {
  await atLocation(context, 'recipients-file', async (location) => {
    const { progress, say } = context;
    const createdMs = createdOf(context);
    const cluster = await openCluster(context);
    const { groupCount: count, clusterId, ...graces } = await infoOf(cluster);
    if (!(await location.claim(MANIFEST))) {
      await endUnfinished(location, progress, 'old');
      throw new Failure(`${location.text} is not empty: ${await whatIsIn(location, count)}`);
    }
    const groups: GroupEntry[] = [];
    const buckets = new Set<string>();
    const absent = new Map<number, string>();
    let coldObjects = 0;
    const tell = teller(progress, count, 'written');
    const note = (text: string): void => progress.note(text);
    const run = { cluster, location, groupCount: count, absent, note };
    try {
      await endUnfinished(location, progress, 'old');
      for (const group of sendOrder(count)) {
        const done = groups.length;
        tell(done, 0);
        const moved = (bytes: number): void => tell(done, bytes);
        const created = await createGroup(run, group, moved);
        groups.push(created.entry);
        coldObjects += created.coldObjects;
        for (const name of created.bucketNames) buckets.add(name);
      }
      groups.sort((a, b) => a.raft_group_id - b.raft_group_id);
      await writeManifest(location, createdMs, groups, await lineageOf(cluster, clusterId));
    } catch (error) {
      const isLeft = !(await location.release(MANIFEST));
      if (groups.length === 0 && !isLeft) throw error;
      const { message, exitCode } = asFailure(error);
      throw new Failure(`${message} (${await whatIsLeft(location, groups.length, count)})`, exitCode, {
        cause: error,
      });
    }
    await endUnfinished(location, progress, 'all');
    for (const [node, reason] of absent)
      progress.note(`node ${node} was left out (${reason}): what only it has applied is not in the backup`);
    const warning = coldNote(coldObjects, graces);
    if (warning !== undefined) progress.note(warning);
    progress.end();
    say(
      wantsJson(context.values)
        ? asJson(location, createdMs, groups, buckets.size)
        : `backup created: ${countsOf(groups, buckets.size)} -> ${location.text}`,
    );
  });
}

/** Two tools at one location of S3 may not see each other, and what the first one made is no leftover. */
async function whatIsLeft(location: Location, written: number, groupCount: number): Promise<string> {
  const isWhole = await location.sizeOf(MANIFEST).catch(() => undefined);
  if (isWhole !== undefined) return `another backup-create has finished at ${location.text}: verify what is there`;
  return `${location.text} holds ${written} of ${groupCount} groups and no manifest: remove what is there`;
}

/** A tool that was killed leaves groups behind, and no manifest. */
async function whatIsIn(location: Location, groupCount: number): Promise<string> {
  const has = async (name: string): Promise<boolean> => (await location.sizeOf(name)) !== undefined;
  if (await has(MANIFEST)) return 'it holds a backup already, and each wants a place of its own';
  for (const name of [MANIFEST, ...sendOrder(groupCount).map(objectName)]) {
    if ((await has(name)) || (await has(unfinished(name))))
      return 'it holds a backup that was not finished, or is on its way: there is no manifest; remove it or take another place';
  }
  return 'it holds other files, and a backup wants a place of its own';
}

export async function checkBackup(context: Context): Promise<void> {
  await atLocation(context, 'identity-file', async (location, keys) => {
    const { values, progress, say } = context;
    const { manifest, buckets } = await verifyBackup(location, { ...context, keys });
    const { groups, created_unix_ms: createdMs } = manifest;
    progress.end();
    say(
      wantsJson(values)
        ? asJson(location, createdMs, groups, buckets)
        : `backup verified: ${countsOf(groups, buckets)}`,
    );
  });
}

export async function restoreBackup(context: Context): Promise<void> {
  await atLocation(context, 'identity-file', async (location, keys) => {
    const { values, progress, say } = context;
    const cluster = await openCluster(context);
    const { manifest, buckets } = await verifyBackup(location, { ...context, keys });
    await checkTarget(manifest, (await infoOf(cluster)).groupCount);
    const { groups } = manifest;
    await leadersOf(cluster, progress);
    const options = {
      location,
      resume: values.isSet('resume'),
      adopts: values.isSet('adopt-cold-objects'),
      source: manifest.cluster_id,
    };
    await (options.resume ? checkResumable(cluster, groups) : checkFree(cluster));
    const tell = teller(progress, groups.length, 'restored');
    const { sampled, unreadable, reason } = await restoreGroups(cluster, groups, options, tell);
    progress.end();
    if (unreadable > 0) {
      throw new Failure(
        `all groups are restored (${countsOf(groups, buckets)}), but of ${sampled} objects in the cold store that were looked at ${unreadable} cannot be read (${reason}); give every node the storage.cold settings of the source, or a copy of what it stored, and start it again`,
      );
    }
    const { created_unix_ms: createdMs } = manifest;
    say(
      wantsJson(values)
        ? asJson(location, createdMs, groups, buckets)
        : `restore complete: ${countsOf(groups, buckets)}`,
    );
  });
}

async function checkTarget({ raft_group_count: wanted }: Manifest, found: number): Promise<void> {
  if (wanted === found) return Promise.resolve();
  throw new Failure(`the backup has ${wanted} groups and the cluster ${found}; nothing was restored`);
}

/** Without a leader an import waits half a minute on every node before it fails. A new cluster elects some. */
async function leadersOf(cluster: Cluster, progress: ProgressBar): Promise<void> {
  const pace = { intervalMs: LEADERS_LOOK_MS, timeoutMs: LEADERS_WAIT_MS };
  await settle(cluster, pace, {
    looks: 1,
    why: whyLeaderless,
    problem: 'nothing was restored, because not every group had a leader',
    show: (objection) => progress.waiting(objection),
  });
}

type Keys = BackupOptions['keys'];

/** For each direction its own: a machine that creates backups need not be able to read them. */
function keysOf({ values }: Context, flag: 'identity-file' | 'recipients-file'): Keys {
  const path = values.text(flag);
  if (path === undefined) return undefined;
  return flag === 'identity-file'
    ? { identities: identitiesIn(path, `--${flag}`), recipients: [] }
    : { identities: [], recipients: recipientsIn(path, `--${flag}`) };
}

async function atLocation(
  context: Context,
  flag: Parameters<typeof keysOf>[1],
  work: (location: Location, keys: Keys) => Promise<void>,
): Promise<void> {
  const { values, signal, env, giveWay } = context;
  giveWay();
  try {
    const keys = keysOf(context, flag);
    const location = await openBackup(values.required('location'), { signal, env, keys });
    try {
      await work(location, keys);
    } finally {
      location.close();
    }
  } catch (error) {
    if (signal.aborted && !(error instanceof Failure)) throw new Interrupted();
    if (error instanceof LocationFault) throw new UsageError(error.message);
    if (error instanceof Fault || error instanceof ConfigError)
      throw new Failure(error.message, undefined, { cause: error });
    throw error;
  }
}

/** Turns a fault into a sentence; a bug is thrown as it is. */
function asFailure(error: unknown): Failure {
  if (error instanceof Failure) return error;
  if (error instanceof Fault) return new Failure(error.message);
  throw error;
}

function createdOf({ values }: Context): number {
  const written = values.text('created-unix-ms');
  if (written === undefined) return Date.now();
  if (!/^\d{1,15}$/.test(written))
    throw new UsageError(`--created-unix-ms ${written}: expected milliseconds since 1970`);
  return Number(written);
}

/** Reports how many groups are done and how much has moved in all. */
function teller(progress: ProgressBar, groups: number, done: string): (group: number, bytes: number) => void {
  let bytes = 0;
  return (group, more) => {
    bytes += more;
    progress.step(group, groups, `groups ${done}, ${(bytes / MIB).toFixed(1)} MiB`);
  };
}

/** The numbers of streams and bytes add up; buckets span groups, so `buckets` comes from the names. */
function totalsOf(groups: readonly GroupEntry[]): { groups: number; streams: number; bytes: number } {
  const sum = (of: (group: GroupEntry) => number): number => groups.reduce((total, group) => total + of(group), 0);
  return {
    groups: groups.length,
    streams: sum((group) => group.streams),
    bytes: sum((group) => group.bytes),
  };
}

function countsOf(entries: readonly GroupEntry[], buckets: number): string {
  const { groups, streams } = totalsOf(entries);
  return `${groups} groups, ${buckets} buckets, ${streams} streams`;
}

/** `bytes` of the snapshots; what lies in the cold store is not counted. */
function asJson(location: Location, createdMs: number, entries: readonly GroupEntry[], buckets: number): string {
  const { groups, streams, bytes } = totalsOf(entries);
  return JSON.stringify({ location: location.text, created_unix_ms: createdMs, groups, buckets, streams, bytes });
}
