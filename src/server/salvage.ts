/**
 * A copy of a single node's data directory whose log is damaged, which starts again: each shard's log ends where
 * something is missing. Says exactly what was left out. The directory itself is only read.
 */
import { cpSync, readdirSync, rmSync } from 'node:fs';
import { basename, join, resolve, sep } from 'node:path';
import { caughtMessage } from '../base/caught.ts';
import { eachCommand } from '../group/entry.ts';
import { Command } from '../protocol/command.ts';
import { ENTRY_DATA } from '../raft/types.ts';
import { syncPath } from '../store/log-files.ts';
import type { LeftOut, Salvage } from '../store/log-salvage.ts';
import { StateError } from '../store/lmdb-damage.ts';
import { openStore } from '../store/rebuild.ts';
import type { ShardStore } from '../store/shard-store.ts';
import { storeFailure } from '../store/volume.ts';
import { State } from '../stream/core/state.ts';
import { stateConfiguration } from '../shard/options.ts';
import { type Layout, type NodeDirectory, lockDataDir, readLayout, refused } from './data-dir.ts';
import { PROCESS_RUNTIME } from './runtime.ts';

/** Streams that a line names. */
const NAMED_MAX = 20;
/** A lock of the process that has it. */
const LMDB_LOCK = 'lock.mdb';

/** `say` gets a line for each finding. Throws a sentence, as when a shard does not say which log is its own. */
export async function salvage(from: string, to: string, say: (line: string) => void): Promise<void> {
  const layout = readLayout(from);
  if (`${resolve(to)}${sep}`.startsWith(`${resolve(from)}${sep}`)) throw refused(to, `lies in ${from}`);
  const lock = await lockDataDir(from);
  const target = await lockDataDir(to);
  try {
    if (readdirSync(to).length > 0) throw refused(to, 'is not empty');
    try {
      // A link to a folder on another disk would lead to the original, whose log would be cut in place of the copy's.
      cpSync(from, to, { recursive: true, dereference: true, filter: (path) => basename(path) !== LMDB_LOCK });
      for (let shard = 0; shard < layout.shardCount; shard++) await salvageShard(to, layout, shard, say);
      syncAll(to);
    } catch (error) {
      // It is not whole, or starts as the damaged node would.
      for (const name of readdirSync(to)) rmSync(join(to, name), { recursive: true });
      throw error;
    }
  } finally {
    await target.release();
    await lock.release();
  }
}

/** A start trusts what is there and syncs only what it writes: a loss of power could cut short the segments of the copy. */
function syncAll(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) syncAll(path);
    else if (entry.isFile()) syncPath(path);
  }
  syncPath(folder);
}

async function salvageShard(
  to: string,
  layout: Layout & NodeDirectory,
  shard: number,
  say: (line: string) => void,
): Promise<void> {
  const { groupCount, shardCount, nodeId, single, shardRun: incarnation, directoryId } = layout;
  const directory = join(to, `shard-${shard}`);
  const groups = Array.from({ length: groupCount }, (_, group) => group).filter(
    (group) => group % shardCount === shard,
  );
  const name = basename(directory);
  let store: ShardStore | undefined;
  try {
    const opening = { runtime: PROCESS_RUNTIME, salvages: true, groups, isAlone: true, onRebuild: () => undefined };
    store = await openStore(directory, opening);
    const { rebuilt } = store.found;
    // The node itself starts without them.
    if (rebuilt !== undefined && rebuilt.torn.length > 0) throw new StateError(rebuilt.why);
    // The note of the last start may be gone.
    if (rebuilt !== undefined && incarnation !== undefined)
      store.noteRun({ shard, incarnation, directory: directoryId });
    if (rebuilt !== undefined)
      say(`${name}: its state is that of the last checkpoint whose meta page is whole: ${rebuilt.why}`);
    for (const group of groups) {
      const { appliedIndex, appliedTerm, configuration } = new State(group, store.tx, store.prefix(group));
      const voters = stateConfiguration(configuration)?.voters ?? (single === true ? [nodeId] : []);
      if (voters.some((voter) => voter !== nodeId) || voters.length === 0)
        throw new StateError('other nodes may vote in its groups: start it, and they restore it');
      store.openLog(group, appliedIndex, appliedTerm);
    }
    store.load(groups);
    const { salvaged } = store.found;
    if (salvaged === undefined) say(`${name}: the log is whole`);
    else for (const line of report(salvaged)) say(`${name}: ${line}`);
  } catch (error) {
    throw new Error(storeFailure(directory, error) ?? `${name}: ${caughtMessage(error)}`, { cause: error });
  } finally {
    await store?.close();
  }
}

function* report({
  why,
  missing,
  lastRecord,
  unreadable,
  leftOut,
}: Salvage & { readonly why: string }): Iterable<string> {
  yield `the log is damaged: ${why}`;
  for (const file of unreadable) yield file;
  for (const [from, to] of missing) yield `left out: records ${from} to ${to}, which cannot be read`;
  yield `the last record that can be read is ${lastRecord}; whether others were behind it is not known`;
  if (leftOut.length === 0) yield 'no entry that can be read was left out';
  for (const one of leftOut) yield* aboutGroup(one);
}

function* aboutGroup({ group, from, behind }: LeftOut): Iterable<string> {
  const [first, last] = [behind[0]?.index ?? from, behind.at(-1)?.index ?? from];
  yield `left out: group ${group}: entries ${from} to ${first - 1} cannot be read, and ${first} to ${last} may not follow a gap`;
  const streams = new Set<string>();
  for (const { kind, data } of behind) if (kind === ENTRY_DATA) addStreams(data, streams);
  if (streams.size === 0) return;
  const named = [...streams].slice(0, NAMED_MAX).join(' ');
  const more = streams.size > NAMED_MAX ? ` and ${streams.size - NAMED_MAX} more` : '';
  yield `left out: group ${group}: commands for ${named}${more}, and those of the entries that cannot be read`;
}

function addStreams(data: Uint8Array, streams: Set<string>): void {
  const command = new Command();
  try {
    eachCommand(data, command, () => streams.add(command.keyText().replaceAll('\0', '/')));
  } catch {
    // The entry is of no kind that names streams.
  }
}
