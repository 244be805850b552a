// The checker of the crash tests must be able to fail: each kind of damage is planted and must be named.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkContent, createStream, newAppend, recordText, type StreamModel, type Totals } from './model.ts';

function fixture(): { stream: StreamModel; texts: string[]; totals: Totals } {
  const stream = createStream('planted', false, true);
  const totals: Totals = { acknowledged: 0, unknownPresent: 0, unknownAbsent: 0, deduplicated: 0, refused: 0 };
  let end = 0;
  const texts = [0, 1, 2].map(() => {
    const append = newAppend(stream, 7, 1, false);
    const text = recordText(stream, append, 0);
    end += text.length;
    append.fate = 'present';
    append.end = end;
    return text;
  });
  return { stream, texts, totals };
}

function complaint(mutate: (texts: string[]) => string[], closed = false): string {
  const { stream, texts, totals } = fixture();
  try {
    checkContent(stream, mutate(texts).join(''), closed, totals);
    return '';
  } catch (error) {
    return (error as Error).message;
  }
}

test('the checker accepts what was acknowledged and names every planted damage', () => {
  assert.equal(
    complaint((texts) => texts),
    '',
  );
  assert.match(
    complaint((texts) => texts.slice(0, 2)),
    /is lost/,
  );
  assert.match(
    complaint((texts) => [...texts, texts[2] as string]),
    /is there twice/,
  );
  assert.match(
    complaint(([a, b, c]) => [b as string, a as string, c as string]),
    /was acknowledged at/,
  );
  assert.match(
    complaint((texts) => ['7:99:0:1:x\n', ...texts]),
    /was never sent/,
  );
  assert.match(
    complaint(([a, b, c]) => [a as string, b as string, (c as string).replace('\n', 'y\n')]),
    /other bytes/,
  );
  assert.match(
    complaint((texts) => texts, true),
    /closed state/,
  );
});

test('an unknown append is settled at the first look and may not change afterwards', () => {
  const { stream, texts, totals } = fixture();
  const open = newAppend(stream, 7, 1, false);
  const text = recordText(stream, open, 0);
  checkContent(stream, texts.join(''), false, totals);
  assert.equal(totals.unknownAbsent, 1);
  assert.throws(
    () => checkContent(stream, texts.join('') + text, false, totals),
    /was absent after an earlier restart/,
  );
});
