/** Text forms of values. Parsers answer undefined for a text that they do not understand. */
import { parse, TomlError } from 'smol-toml';

export const KIB = 1024;
export const MIB = 1024 * KIB;
export const GIB = 1024 * MIB;
export const SECOND_MS = 1000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

const DURATION_UNITS_MS: Readonly<Record<string, number>> = {
  ...{ ms: 1, s: SECOND_MS, m: MINUTE_MS, h: HOUR_MS, d: DAY_MS },
};

/** K is 1000 and KiB is 1024, as on a disk's label and in a memory map; KB is K, as MB is M. */
const SIZE_UNITS_BYTES: Readonly<Record<string, number>> = {
  ...{ B: 1, K: 1000, M: 1000 ** 2, G: 1000 ** 3, T: 1000 ** 4 },
  ...{ KB: 1000, MB: 1000 ** 2, GB: 1000 ** 3, TB: 1000 ** 4 },
  ...{ KiB: KIB, MiB: MIB, GiB: GIB, TiB: 1024 * GIB },
};

/** `"500ms"`, `"30s"`, `"1.5h"`, or an integer number of milliseconds. */
export function parseDurationMs(raw: unknown): number | undefined {
  return parseQuantity(raw, DURATION_UNITS_MS);
}

/** `"256 MiB"`, `"64K"`, or an integer number of bytes. */
export function parseSizeBytes(raw: unknown): number | undefined {
  return parseQuantity(raw, SIZE_UNITS_BYTES);
}

/** The shortest text that `parseDurationMs` reads back as the same number. */
export function formatDuration(ms: number): string {
  return formatQuantity(ms, Object.entries(DURATION_UNITS_MS), '');
}

/** Binary units only: every size of ours is a round binary number. */
export function formatSize(bytes: number): string {
  return formatQuantity(
    bytes,
    Object.entries(SIZE_UNITS_BYTES).filter(([unit]) => unit === 'B' || unit.endsWith('iB')),
    ' ',
  );
}

/** Exact arithmetic: `1.1s` is 1100 ms and `0.0005s` is refused, where doubles give 1100.0000000000002 and 0.5. */
function parseQuantity(raw: unknown, units: Readonly<Record<string, number>>): number | undefined {
  if (typeof raw === 'number') return Number.isSafeInteger(raw) && raw >= 0 ? raw : undefined;
  if (typeof raw !== 'string') return undefined;
  const match = /^(\d{1,15})(?:\.(\d{1,6}))? ?([A-Za-z]{1,3})$/.exec(raw);
  if (match === null) return undefined;
  const [, whole = '', fraction = '', unit = ''] = match;
  if (!Object.hasOwn(units, unit)) return undefined;
  const divisor = 10n ** BigInt(fraction.length);
  const product = BigInt(whole + fraction) * BigInt(units[unit] ?? 0);
  if (product % divisor !== 0n) return undefined;
  const value = Number(product / divisor);
  return Number.isSafeInteger(value) ? value : undefined;
}

function formatQuantity(value: number, units: [string, number][], gap: string): string {
  let best = units[0];
  for (const unit of units) if (value > 0 && value % unit[1] === 0 && unit[1] > (best?.[1] ?? 0)) best = unit;
  return best === undefined ? String(value) : `${value / best[1]}${gap}${best[0]}`;
}

// The text of a flag, or of a variable of the environment, as the TOML value it stands for. A text that does
// not fit stays as it is: the kind then says what it expected.

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
