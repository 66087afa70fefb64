import { Route, Switch } from 'wouter'
import { BatchPage } from './detail.tsx'
import { BatchList } from './list.tsx'

export default function Batches() {
  return (
    <Switch>
      <Route path="/:organisation/batches/:id">{({ id }) => <BatchPage key={id} id={id} />}</Route>
      <Route>
        <BatchList />
      </Route>
    </Switch>
  )
}
