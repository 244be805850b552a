// A thread that answers with what it is told, or ends at it.
import process from 'node:process';

export function echo(text: string): string {
  if (text === 'end') process.exit(4);
  if (text === 'throw')
    setImmediate(() => {
      throw new Error('planted: this thread fails');
    });
  return text;
}
