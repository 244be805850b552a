// Reads an event stream up to some amount of data, as `measure` counts it.
import assert from 'node:assert/strict';

/**
 * The data of events up to `amount`; then `more` is called, and what comes up to the sum that it names is read, too.
 */
export async function readEvents(
  url: string,
  amount: number,
  measure: (data: string) => number,
  more: () => Promise<number>,
): Promise<string[]> {
  const abort = new AbortController();
  const response = await fetch(url, { signal: abort.signal });
  assert.equal(response.status, 200, url);
  assert(response.body !== null);
  const shown: string[] = [];
  let goal = amount;
  let seen = 0;
  let pending = '';
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  while (seen < goal) {
    const { value, done } = await reader.read();
    assert(!done, `the event stream ends after ${seen} of ${goal}`);
    const blocks = (pending + value).split('\n\n');
    pending = blocks.pop() as string;
    const data = blocks.filter((block) => block.startsWith('event: data\n')).map(dataOf);
    shown.push(...data);
    for (const one of data) seen += measure(one);
    if (seen >= goal && goal === amount) goal = Math.max(goal, await more());
  }
  abort.abort();
  return shown;
}

function dataOf(block: string): string {
  return block
    .split('\n')
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice('data:'.length))
    .join('\n');
}
