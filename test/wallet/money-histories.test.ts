import { test } from '../support/test.ts'
import { declareMoneyHistories } from '../support/wallet/money-histories.ts'

declareMoneyHistories(test, 40, 3_000)
