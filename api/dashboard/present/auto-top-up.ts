import { nanoFromCents, usdFromNano } from '../../../shared/base/money.ts'
import { viewAutoTopUp } from '../../../shared/payments/auto-top-ups.ts'
import type { Platform } from '../../../shared/platform.ts'
import type { AutoTopUp } from '../wire/billing.ts'

/** The automatic top-ups of an organisation as its Billing page and operators see them. */
export async function presentAutoTopUp(
  { db, clock }: Platform,
  organisationId: string,
): Promise<Omit<AutoTopUp, 'limits'>> {
  const nowMs = clock.now()
  const { settings, spentCents, last } = await viewAutoTopUp(db, organisationId, nowMs)
  const isDelayed = settings.enabled && settings.failures > 0 && settings.nextAttemptAt.getTime() > nowMs
  return {
    enabled: settings.enabled,
    threshold_usd: usdOf(settings.thresholdCents),
    amount_usd: usdOf(settings.amountCents),
    monthly_limit_usd: usdOf(settings.monthlyLimitCents),
    spent_month_usd: usdOf(spentCents),
    card: settings.cardLast4 === null ? null : cardOf(settings),
    saving_card: settings.setupSessionId !== null,
    disabled_reason: settings.disabledReason,
    retry_at: isDelayed ? settings.nextAttemptAt.toISOString() : null,
    last: last && {
      id: last.id,
      status: last.status,
      amount_usd: usdFromNano(last.amountNano),
      failure: last.failureCode,
      created_at: last.createdAt.toISOString(),
    },
  }
}

function usdOf(cents: number): number {
  return usdFromNano(nanoFromCents(cents))
}

function cardOf({
  cardBrand,
  cardLast4,
  cardExpires,
}: { [name in 'cardBrand' | 'cardLast4' | 'cardExpires']: string | null }) {
  return { brand: cardBrand ?? '', last4: cardLast4 ?? '', expires: cardExpires ?? '' }
}
