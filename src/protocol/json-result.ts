/**
 * Results whose body is JSON, and a check of each for its form: what reads one never works with something else. A check names its type
 * once, by its members.
 */
import { assert } from '../base/assert.ts';
import { decodeUtf8, encodeUtf8 } from '../base/utf8.ts';
import type { Reply } from './reply.ts';

export type Check<T> = (value: unknown) => value is T;

export const isNumber: Check<number> = (value) => typeof value === 'number';
export const isText: Check<string> = (value) => typeof value === 'string';
export const isFlag: Check<boolean> = (value) => typeof value === 'boolean';

export function isArrayOf<T>(check: Check<T>): Check<T[]> {
  return (value): value is T[] => Array.isArray(value) && value.every(check);
}

/** Any names. */
export function isMapOf<T>(check: Check<T>): Check<Record<string, T>> {
  return (value): value is Record<string, T> => isObject(value) && Object.values(value).every(check);
}

/** Members that are not named here are let through. */
export function isObjectOf<T extends object>(members: { readonly [Name in keyof T]-?: Check<T[Name]> }): Check<T> {
  const checks = Object.entries<Check<unknown>>(members);
  return (value): value is T =>
    isObject(value) && checks.every(([name, check]) => check(Object.hasOwn(value, name) ? value[name] : undefined));
}

export function isOptional<T>(check: Check<T>): Check<T | undefined> {
  return (value): value is T | undefined => value === undefined || check(value);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function writeJson(reply: Reply, value: unknown): void {
  reply.body = encodeUtf8(JSON.stringify(value));
}

/** Throws for a body of another form. */
export function readJson<T>(reply: Reply, check: Check<T>): T {
  const value: unknown = JSON.parse(reply.body === undefined ? 'null' : decodeUtf8(reply.body));
  assert(check(value), 'the body of a result has the form that its operation declares');
  return value;
}
