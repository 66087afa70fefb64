import { z } from 'zod'
import { unprintable } from '../../shared/base/quote-name.ts'
import { maxNameCharacters } from './accounts.ts'

const webAddress = /:\/\/|\/\/|\bwww\.|[\p{L}\d]\.\p{L}{2,}/iu

/** A name of a person or organisation, which appears in emails to others: one line without links. */
export const nameSchema = z
  .string()
  .trim()
  .min(1)
  .max(maxNameCharacters)
  .refine(text => !unprintable.test(text), 'must be one line')
  .refine(text => !webAddress.test(text), 'must not contain a web address; put a space after a full stop')
