// A verb of the operator's tool in this process: what it prints, and the sentence with which it fails.
import { ctl } from './ctl.ts';

export interface VerbResult {
  readonly code: number | string;
  readonly stdout: string;
  /** The sentence of a failure. */
  readonly sentence: string;
}

/** `line` has no quotes: words are parted by blanks. */
export async function runVerb(line: string, env: Readonly<Record<string, string>>): Promise<VerbResult> {
  const { code, stdout, stderr } = await ctl(line.split(' '), { env });
  const last = stderr.trimEnd().split('\n').at(-1) ?? '';
  return { code, stdout, sentence: last.replace(/^millracectl: /, '') };
}
