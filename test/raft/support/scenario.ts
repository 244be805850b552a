/**
 * Scenario files: blocks of `commands` / `----` / expected output, separated by empty lines. Lines that start with #
 * before a command are the story. With UPDATE=1 the expected output is rewritten: only commit what you understand.
 */
export interface Command {
  readonly name: string;
  /** Words without "=", in order. */
  readonly words: readonly string[];
  readonly options: ReadonlyMap<string, string>;
}

export function parseCommand(line: string): Command {
  const [name, ...rest] = line.trim().split(/\s+/);
  const words = rest.filter((word) => !word.includes('='));
  const options = new Map(
    rest
      .filter((word) => word.includes('='))
      .map((word): [string, string] => {
        const at = word.indexOf('=');
        return [word.slice(0, at), word.slice(at + 1)];
      }),
  );
  return { name: name ?? '', words, options };
}

/** Runs a scenario text; returns it with the real output in place of the expected one. */
export function runScenario(text: string, run: (command: Command) => readonly string[]): string {
  const result: string[] = [];
  let output: string[] = [];
  let skipping = false;
  for (const line of text.trimEnd().split('\n')) {
    if (line === '----') {
      result.push(line, ...(output.length > 0 ? output : ['ok']));
      output = [];
      skipping = true;
    } else if (skipping) {
      if (line !== '') continue;
      skipping = false;
      result.push(line);
    } else {
      result.push(line);
      if (line !== '' && !line.startsWith('#')) output.push(...run(parseCommand(line)));
    }
  }
  return `${result.join('\n')}\n`;
}
