import { SCRIPTS, SHELLS } from '../completion.ts';
import type { Verb } from '../context.ts';

/** Word by which the shells ask; see completion.ts. */
export const COMPLETE = '__complete';

export const completion: Verb = {
  name: 'completion',
  about: 'print what lets a shell complete verbs, flags and contexts',
  words: ['shell'],
  examples: ['millracectl completion bash', 'millracectl completion zsh', 'millracectl completion fish'],
  onlyShows: true,
  flags: {
    shell: { kind: 'text', value: SHELLS.join('|'), about: 'which shell', required: true, choices: SHELLS },
  },
  run: ({ values, say }) => {
    const shell = SHELLS.find((one) => one === values.required('shell'));
    if (shell !== undefined) say(SCRIPTS[shell]);
    return Promise.resolve();
  },
};
