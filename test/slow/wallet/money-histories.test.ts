import { test } from '../../support/test.ts'
import { declareMoneyHistories } from '../../support/wallet/money-histories.ts'

declareMoneyHistories(test, 200, 30_000)
