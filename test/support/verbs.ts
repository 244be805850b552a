// A verb of the operator's tool in this process: what it prints and how it ends, for a tenth of what a process costs. What is
// about the process itself (pipes, signals, terminals) runs one.
import assert from 'node:assert/strict';
import { Values, parseCommandLine } from '../../src/operator/command-line.ts';
import { Failure } from '../../src/operator/failure.ts';
import { ProgressBar } from '../../src/operator/progress-bar.ts';
import { VERBS } from '../../src/operator/verbs.ts';

export interface VerbResult {
  readonly code: number;
  readonly stdout: string;
  /** The sentence of a failure. */
  readonly sentence: string;
}

/** Bars and notes are not of interest. */
class Silent extends ProgressBar {
  override note(): void {}
  override step(): void {}
  override waiting(): void {}
}

/** `line` has no quotes: words are parted by blanks. */
export async function runVerb(line: string, env: Readonly<Record<string, string>>): Promise<VerbResult> {
  const pieces: Uint8Array[] = [];
  const ended = (code: number, sentence: string): VerbResult => {
    return { code, sentence, stdout: Buffer.concat(pieces).toString('utf8') };
  };
  try {
    const { verb, given } = parseCommandLine(line.split(' '), VERBS);
    assert(verb !== undefined, line);
    await verb.run({
      values: new Values(verb, given, env),
      signal: new AbortController().signal,
      progress: new Silent(),
      say: (text) => void pieces.push(Buffer.from(`${text}\n`)),
      write: (bytes) => Promise.resolve(void pieces.push(bytes)),
    });
    return ended(0, '');
  } catch (error) {
    if (error instanceof Failure) return ended(error.exitCode, error.message);
    throw error;
  }
}
