import { z } from 'zod'

const days = z.coerce.number().int().min(1)
const months = z.coerce.number().int().min(1).max(120)

/** The environment variables that say how long records are kept. */
export const retentionVariables = {
  GENERATION_RETENTION_MONTHS: months.default(13),
  USAGE_RETENTION_MONTHS: months.default(60),
  AUDIT_RETENTION_MONTHS: months.default(36),
  JOB_RETENTION_DAYS: days.max(3_650).default(400),
  RESULT_RETENTION_DAYS: days.max(365).default(7),
  FILE_RETENTION_DAYS: days.max(365).default(30),
  RESPONSE_RETENTION_DAYS: days.max(365).default(30),
  WEBHOOK_RETENTION_DAYS: days.max(3_650).default(30),
}
type Variables = { [Name in keyof typeof retentionVariables]: number }

export type RetentionPeriods = {
  /** How long the request log, feedback and usage by hour are kept. */
  generationRetentionMonths: number
  /** Of usage by day. */
  usageRetentionMonths: number
  /** How long the audit log and alerts are kept. */
  auditRetentionMonths: number
  /** Of jobs and batches that have ended. */
  jobRetentionDays: number
  /** How long the results of jobs and the requests of media jobs are kept. */
  resultRetentionDays: number
  /** Of batch files. */
  fileRetentionDays: number
  /** The longest retention of stored responses that an organisation may choose, and the default. */
  responseRetentionDays: number
  /** Of webhook deliveries that have ended. */
  webhookRetentionDays: number
}

export function retentionOf(v: Variables): RetentionPeriods {
  return {
    generationRetentionMonths: v.GENERATION_RETENTION_MONTHS,
    usageRetentionMonths: v.USAGE_RETENTION_MONTHS,
    auditRetentionMonths: v.AUDIT_RETENTION_MONTHS,
    jobRetentionDays: v.JOB_RETENTION_DAYS,
    resultRetentionDays: v.RESULT_RETENTION_DAYS,
    fileRetentionDays: v.FILE_RETENTION_DAYS,
    responseRetentionDays: v.RESPONSE_RETENTION_DAYS,
    webhookRetentionDays: v.WEBHOOK_RETENTION_DAYS,
  }
}

/** Pairs of which the first must not be shorter: the ledger check compares usage by day with the log, and jobs describe their results. */
const notShorter = [
  ['USAGE_RETENTION_MONTHS', 'GENERATION_RETENTION_MONTHS'],
  ['JOB_RETENTION_DAYS', 'RESULT_RETENTION_DAYS'],
] as const satisfies [keyof Variables, keyof Variables][]

/** One line for each period that ends before another one that depends on it. */
export function findRetentionFaults(v: Variables): string[] {
  const faults = notShorter.filter(([name, other]) => v[name] < v[other])
  return faults.map(([name, other]) => `${name}: must be at least ${other}, which is ${v[other]}`)
}
