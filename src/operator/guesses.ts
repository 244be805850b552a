/** Verbs and flags that people know from other tools, with the name that they have here. */
import { suggest } from '../config/suggest.ts';

/** By the word that was typed, the names that it may stand for; the first that is known here is shown. */
const VERBS: ReadonlyMap<string, readonly string[]> = new Map([
  ['list', ['ls', 'stream ls']],
  ['ls', ['stream ls']],
  ['get', ['cat', 'quota', 'stream cat']],
  ['read', ['cat', 'stream cat']],
  ['cat', ['stream cat']],
  ['tail', ['stream tail']],
  ['follow', ['tail', 'stream tail']],
  ['write', ['append', 'stream append']],
  ['put', ['append', 'stream append']],
  ['push', ['append', 'stream append']],
  ['publish', ['append', 'stream append']],
  ['append', ['stream append']],
  ['new', ['create', 'stream create']],
  ['add', ['create', 'stream create']],
  ['create', ['stream create']],
  ['delete', ['rm', 'purge', 'stream rm']],
  ['remove', ['rm', 'purge', 'stream rm']],
  ['rm', ['purge', 'stream rm']],
  ['info', ['stat', 'ls', 'status']],
  ['show', ['stat', 'ls', 'status']],
  ['describe', ['stat', 'ls', 'status']],
  ['streams', ['stream ls']],
  ['buckets', ['bucket ls']],
  ['nodes', ['members']],
  ['backup', ['backup-create']],
]);

const FLAGS: ReadonlyMap<string, readonly string[]> = new Map([
  ['--type', ['--content-type']],
  ['--format', ['--output']],
  ['--count', ['--limit', '--lines']],
  ['--max', ['--limit', '--lines']],
  ['--num', ['--limit', '--lines']],
  ['--from', ['--offset', '--from-token-file']],
  ['--start', ['--offset']],
  ['--timeout', ['--timeout-secs', '--http-timeout-secs']],
  ['--token', ['--token-file', '--client-token-file']],
  ['--cluster', ['--config']],
  ['--server', ['--url', '--config']],
  ['--host', ['--url', '--config']],
  ['--endpoint', ['--url', '--config']],
  ['--force', ['--yes']],
  ['--ndjson', ['--json-lines']],
  ['--id', ['--node']],
]);

/** "Did you mean": by what is known of other tools, then by a beginning (`--ttl`), then by the letters. */
export function suggestFor(written: string, known: readonly string[]): string {
  const guessed = (written.startsWith('--') ? FLAGS : VERBS).get(written) ?? [];
  const found = guessed.find((name) => known.includes(name)) ?? known.find((name) => name.startsWith(`${written}-`));
  return found === undefined ? suggest(written, known) : `; did you mean ${found}?`;
}
