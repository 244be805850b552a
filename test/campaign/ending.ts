// How a trial may end, and what is none of these.
import type { Look } from './content.ts';

export const GOOD = ['served', 'refused', 'restored'] as const;
export type Ending = (typeof GOOD)[number] | 'BAD';

export interface Verdict {
  readonly ending: Ending;
  /** Why it is bad, or what was said. */
  readonly why: string;
}

const EXIT_REFUSED = 2;
/** A node that ends while it serves, because of what it found on its disk. */
const NAMES_DAMAGE = /is damaged|is not what was written|not readable|cannot be read|restore the right millrace\.json/;

/** A start that failed, or a node that ended: refused when it said a sentence and no more. */
export function ofEnd(code: number | string, output: string): Verdict {
  const said = output.trimEnd().split('\n');
  const last = said.at(-1) ?? '';
  const sentence = said.find((line) => line.startsWith('millrace: ') || line.startsWith('a shard failed')) ?? last;
  const isSentence = !/^\s+at /m.test(output.slice(output.indexOf(sentence)));
  const isRefused = code === EXIT_REFUSED && isSentence && sentence.startsWith('millrace: ');
  if (isRefused || (isSentence && NAMES_DAMAGE.test(sentence))) return { ending: 'refused', why: sentence };
  return { ending: 'BAD', why: `ended with ${code}: ${sentence}` };
}

/** The verdict on the answers that clients got. */
export function ofLooks(looks: readonly Look[], good: 'served' | 'restored' = 'served'): Verdict {
  const wrong = looks.flatMap((look) => look.wrong);
  if (wrong.length > 0) return { ending: 'BAD', why: wrong.join('; ') };
  const refused = new Set(looks.flatMap((look) => look.refused));
  return refused.size > 0 ? { ending: 'refused', why: [...refused].join(', ') } : { ending: good, why: '' };
}
