/** Verbs and flags that people know from other tools, with the name that they have here. */
import { suggest } from '../config/suggest.ts';

/** In a group its verbs are found by their last words. */
const GUESSES: Readonly<Record<string, readonly string[]>> = {
  'stream ls': ['list', 'ls', 'streams'],
  'stream cat': ['cat', 'get', 'read'],
  'stream tail': ['tail', 'follow', 'watch'],
  'stream append': ['append', 'write', 'put', 'push', 'publish'],
  'stream create': ['create', 'new', 'add', 'make'],
  'stream rm': ['rm', 'delete', 'remove'],
  'stream stat': ['stat', 'info', 'show', 'describe'],
  'bucket ls': ['buckets'],
  'bucket purge': ['delete', 'rm', 'remove'],
  'bucket quota': ['get', 'set', 'show'],
  members: ['nodes'],
  'backup-create': ['backup'],
  '--content-type': ['--type', '--mime'],
  '--output': ['--format'],
  '--limit': ['--count', '--max', '--num', '--lines'],
  '--lines': ['--count', '--max', '--num', '--limit'],
  '--offset': ['--from', '--start', '--since'],
  '--token-file': ['--token'],
  '--client-token-file': ['--token'],
  '--config': ['--cluster', '--host', '--server', '--url'],
  '--phase-secs': ['--seconds', '--duration'],
  '--url': ['--endpoint', '--address'],
  '--yes': ['--force'],
  '--json-lines': ['--ndjson', '--jsonl'],
};

/** "Did you mean": by the names of other tools, then by a beginning (`--ttl`), then by the letters. */
export function suggestFor(written: string, known: readonly string[]): string {
  const guessed = Object.entries(GUESSES).flatMap(([name, words]) =>
    words.includes(written) ? known.filter((one) => one === name || (written !== one && name.endsWith(` ${one}`))) : [],
  );
  const found = guessed[0] ?? known.find((name) => name.startsWith(`${written}-`));
  return found === undefined ? suggest(written, known) : `; did you mean ${found}?`;
}
