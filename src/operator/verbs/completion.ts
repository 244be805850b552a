import { SCRIPTS } from '../completion.ts';
import type { Verb } from '../context.ts';

/** Word by which the shells ask; see completion.ts. */
export const COMPLETE = '__complete';

const SHELLS = [...SCRIPTS.keys()];

export const completion: Verb = {
  name: 'completion',
  about: 'print what lets a shell complete verbs, flags and contexts',
  words: ['shell'],
  examples: SHELLS.map((shell) => `millracectl completion ${shell}`),
  onlyShows: true,
  flags: {
    shell: { kind: 'text', value: SHELLS.join('|'), about: 'which shell', required: true, choices: SHELLS },
  },
  run: ({ values, say }) => Promise.resolve(say(SCRIPTS.get(values.required('shell')) ?? '')),
};
