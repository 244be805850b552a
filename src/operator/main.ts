/** `millracectl`, also `node dist/ctl.js`: the operator's tool, over the admin planes of a cluster's nodes. */
import { setMaxListeners } from 'node:events';
import process from 'node:process';
import { VERSION } from '../config/version.ts';
import { type ContextFlags, Values, parseCommandLine } from './command-line.ts';
import { completions } from './completion.ts';
import { Contexts } from './contexts.ts';
import { EXIT_FAILED, Failure, reasonOf } from './failure.ts';
import { helpOfAll, helpOfVerb } from './help.ts';
import { paint, printableLines } from './output.ts';
import { ProgressBar } from './progress-bar.ts';
import type { Verb } from './context.ts';
import { writeOut } from './streams/pipes.ts';
import { COMPLETE } from './verbs/completion.ts';
import { VERBS } from './verbs.ts';

/** A connection that is lost to an operator's host is an interruption too. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Ctrl-C under npm arrives from the terminal and from npm. */
const SAME_SIGNAL_MS = 500;

async function main(argv: readonly string[], progress: ProgressBar): Promise<void> {
  const [first, ...words] = argv;
  if (first === COMPLETE)
    return say(
      completions(words, VERBS)
        .map((line) => `${line}\n`)
        .join(''),
    );
  const { verb, group, help, version, given } = parseCommandLine(argv, VERBS);
  if (help) return say(verb === undefined ? helpOfAll(VERBS, group) : helpOfVerb(verb));
  if (version || verb === undefined) return say(`${VERSION}\n`);
  const ending = new AbortController();
  // As many as there are groups under way; Node warns of more than ten.
  setMaxListeners(0, ending.signal);
  let endingSinceMs = -Infinity;
  // The first one lets a verb clean up behind itself; the second ends at once.
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      if (performance.now() - endingSinceMs < SAME_SIGNAL_MS) return;
      if (ending.signal.aborted) {
        process.stderr.write('millracectl: ended in the middle; status shows what is left behind\n');
        process.exit(EXIT_FAILED);
      }
      endingSinceMs = performance.now();
      ending.abort();
    });
  }
  const values = new Values(verb, given, process.env, contextOf(verb, given));
  onlyShows = typeof verb.onlyShows === 'function' ? verb.onlyShows(values) : verb.onlyShows === true;
  const context = {
    values,
    signal: ending.signal,
    progress,
    say: (line: string) => say(`${line}\n`),
    write: writeOut,
  };
  return await verb.run(context);
}

/** Only verbs that ask a cluster have one, so a damaged file of contexts stops no other. */
function contextOf(verb: Verb, given: ReadonlyMap<string, string>): ContextFlags | undefined {
  if (!Object.hasOwn(verb.flags, 'context')) return undefined;
  const named = given.get('context') ?? process.env['MILLRACE_CONTEXT']?.trim();
  return Contexts.read().flagsFor(named === '' ? undefined : named);
}

function say(text: string): void {
  process.stdout.write(text);
}

// `millracectl status | head` closes the pipe early: then there is nothing left to do. What changes something goes on without
// an audience, also when the terminal is gone. A result that got lost otherwise, on a full disk, is said.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  const isLost = error.code !== 'EPIPE' && error.code !== 'EIO';
  if (isLost && !resultIsLost) {
    resultIsLost = true;
    process.stderr.write(`millracectl: the result cannot be written to stdout (${reasonOf(error)})\n`);
    process.exitCode = Math.max(exitCode, EXIT_FAILED);
  }
  if (onlyShows) process.exit();
});
process.stderr.on('error', () => undefined);

let resultIsLost = false;
let onlyShows = false;
let exitCode = 0;
const progress = new ProgressBar();
// Whatever ends this process: the line of the bar is cleared.
process.on('exit', () => progress.end());
try {
  await main(process.argv.slice(2), progress);
} catch (error) {
  progress.end();
  exitCode = error instanceof Failure ? error.exitCode : EXIT_FAILED;
  const text =
    error instanceof Failure ? error.message : `a fault of millracectl: ${String((error as Error).stack ?? error)}`;
  const whose = /^node \d+: /.test(text) ? '' : paint('millracectl: ', 'red', process.stderr);
  // It may quote what a node, a server or a file says.
  process.stderr.write(`${whose}${printableLines(text)}\n`);
}
progress.end();
// Not process.exit: what was written to a pipe still has to go out.
process.exitCode = resultIsLost ? Math.max(exitCode, EXIT_FAILED) : exitCode;
for (const signal of SIGNALS) process.removeAllListeners(signal);
