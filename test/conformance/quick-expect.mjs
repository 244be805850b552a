// The official suite gets this for `vitest`: the same, with a quick way to compare two numbers. It compares what streams
// hold byte by byte, and an assertion of vitest for each byte took much of the processor of a run.
import { expect as vitestExpect } from 'vitest';

export { describe, test, vi } from 'vitest';

const OF_NUMBER = {
  get({ value, rest }, name) {
    // Only what differs needs a sentence.
    if (name === 'toBe')
      return (wanted) => void (Object.is(value, wanted) || vitestExpect(value, ...rest).toBe(wanted));
    const assertion = vitestExpect(value, ...rest);
    const member = assertion[name];
    return typeof member === 'function' ? (...args) => Reflect.apply(member, assertion, args) : member;
  },
};

export const expect = new Proxy(vitestExpect, {
  apply: (_, __, [value, ...rest]) =>
    typeof value === 'number' ? new Proxy({ value, rest }, OF_NUMBER) : vitestExpect(value, ...rest),
});
