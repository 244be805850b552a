/**
 * What the text of a flag, or of a variable of the environment, stands for in TOML. A text that does not fit stays as it is: the kind
 * then says what it expected.
 */
import { parse, TomlError } from 'smol-toml';

export function numberFromText(text: string): unknown {
  return /^\d{1,15}$/.test(text) ? Number(text) : text;
}

export function booleanFromText(text: string): unknown {
  return text === 'true' ? true : text === 'false' ? false : text;
}

/** `a,b`, or as in a file: `["a", "b"]`. */
export function listFromText(text: string): unknown {
  return text.trimStart().startsWith('[') ? arrayFromToml(text) : itemsOf(text);
}

/** `1=10.0.0.1:4440,2=10.0.0.2:4440`, or as in a file. */
export function peersFromText(text: string): unknown {
  if (text.trimStart().startsWith('[')) return arrayFromToml(text);
  return itemsOf(text).map((item) => {
    const [, id, addr] = /^(\d{1,15})=(.*)$/.exec(item) ?? [];
    return id === undefined ? item : { node_id: Number(id), addr };
  });
}

function itemsOf(text: string): string[] {
  return text.split(',').map((item) => item.trim());
}

function arrayFromToml(text: string): unknown {
  try {
    const { value, ...more } = parse(`value = ${text}`);
    return Object.keys(more).length === 0 ? value : text;
  } catch (error) {
    if (error instanceof TomlError) return text;
    throw error;
  }
}
