import { typeName } from '../../api/dashboard/web/pages/requests/types.ts'
import { directKinds, queuedKinds, syncKinds } from '../../shared/kinds/index.ts'
import { test } from '../support/test.ts'

test('every kind of request has a name on the pages', t => {
  const kinds = [...Object.keys({ ...directKinds, ...syncKinds, ...queuedKinds }), 'realtime']
  t.deepEqual(
    kinds.filter(kind => typeName(kind) === kind),
    [],
  )
})
