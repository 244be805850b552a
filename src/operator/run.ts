/** `run(argv, io)`: the whole tool as a function. It touches nothing of the process; main.ts is the process. */
import { setMaxListeners } from 'node:events';
import { VERSION } from '../config/version.ts';
import { asksVersion, helpFor, parseCommandLine } from './command-line.ts';
import { COMPLETE, completions } from './completion.ts';
import type { Verb } from './context.ts';
import { Contexts } from './contexts.ts';
import { type ExitCode, EXIT_DONE, EXIT_FAILED, Failure, printableLines, reasonOf } from '../nodes/failure.ts';
import { type ContextFlags, Values } from './flags.ts';
import type { EnvironmentVariables } from '../config/environment.ts';
import { type Io, Output } from './io.ts';
import { paint } from './output.ts';
import { ProgressBar } from './progress-bar.ts';
import { VERBS } from './verbs.ts';

/** A process gives its own progress bar, to clear the line however it ends. */
export async function run(argv: readonly string[], io: Io, bar?: ProgressBar): Promise<ExitCode> {
  return await new Run(io, bar ?? new ProgressBar(io.stderr, io.env)).run(argv);
}

class Run {
  readonly #io: Io;
  readonly #out: Output;
  readonly #err: Output;
  readonly #progress: ProgressBar;
  /** Aborted when the reader of a verb that only shows has gone. */
  readonly #unread = new AbortController();
  #onlyShows = false;
  #isResultLost = false;

  constructor(io: Io, progress: ProgressBar) {
    this.#io = io;
    this.#out = new Output(io.stdout, io.env);
    this.#err = new Output(io.stderr, io.env);
    this.#progress = progress;
  }

  async run(argv: readonly string[]): Promise<ExitCode> {
    const { stdout } = this.#io;
    stdout.on('error', this.#onOutputError);
    const unread = new Promise<void>((resolve) => this.#unread.signal.addEventListener('abort', () => resolve()));
    let exitCode: ExitCode = EXIT_DONE;
    try {
      const work = this.#do(argv);
      await Promise.race([work, unread]);
      // Errors of the last writes have been reported when an empty write is done.
      await Promise.race([new Promise((resolve) => stdout.write('', resolve)), unread]);
    } catch (error) {
      exitCode = this.#tell(error);
    }
    this.#progress.end();
    stdout.off('error', this.#onOutputError);
    return this.#isResultLost && exitCode === EXIT_DONE ? EXIT_FAILED : exitCode;
  }

  async #do(argv: readonly string[]): Promise<void> {
    const { env, stdin, signal, giveWay = (): void => undefined, startVerifiers } = this.#io;
    const [first, ...words] = argv;
    if (first === COMPLETE) return this.#say(completions(words, VERBS, env).map((line) => `${line}\n`));
    const help = await helpFor(argv, VERBS);
    if (help !== undefined) return this.#say([help]);
    if (asksVersion(argv)) return this.#say([`${VERSION}\n`]);
    const { verb, given } = parseCommandLine(argv, VERBS);
    const values = new Values(verb, given, env, contextOf(verb, given, env));
    this.#onlyShows = typeof verb.onlyShows === 'function' ? verb.onlyShows(values) : verb.onlyShows === true;
    const ending = AbortSignal.any([signal, this.#unread.signal]);
    // As many as there are groups under way; Node warns of more than ten.
    setMaxListeners(0, ending);
    await verb.run({
      ...{ values, env, stdin, giveWay, startVerifiers },
      signal: ending,
      progress: this.#progress,
      out: this.#out,
      err: this.#err,
      say: (line) => this.#out.say(line),
    });
  }

  #say(texts: readonly string[]): void {
    this.#out.text(texts.join(''));
  }

  /**
   * `millracectl status | head` closes the pipe early: then there is nothing left to do. What changes something goes
   * on without an audience, also when the terminal is gone. A result that got lost otherwise, on a full disk, is said.
   */
  readonly #onOutputError = (error: NodeJS.ErrnoException): void => {
    const isLost = error.code !== 'EPIPE' && error.code !== 'EIO';
    if (isLost && !this.#isResultLost) {
      this.#isResultLost = true;
      this.#err.say(`millracectl: the result cannot be written to stdout (${reasonOf(error)})`);
    }
    if (this.#onlyShows) this.#unread.abort();
  };

  #tell(error: unknown): ExitCode {
    this.#progress.end();
    const isOurs = error instanceof Failure;
    const text = isOurs ? error.message : `a fault of millracectl: ${String((error as Error).stack ?? error)}`;
    const whose = /^node \d+: /.test(text) ? '' : paint('millracectl: ', 'red');
    // It may quote what a node, a server or a file says.
    this.#err.say(`${whose}${printableLines(text)}`);
    return isOurs ? error.exitCode : EXIT_FAILED;
  }
}

/** Only verbs that ask a cluster have one, so a damaged file of contexts stops no other. */
function contextOf(
  verb: Verb,
  given: ReadonlyMap<string, string>,
  env: EnvironmentVariables,
): ContextFlags | undefined {
  if (!Object.hasOwn(verb.flags, 'context')) return undefined;
  const named = given.get('context') ?? env['MILLRACE_CONTEXT']?.trim();
  return Contexts.read(env).flagsFor(named === '' ? undefined : named);
}
