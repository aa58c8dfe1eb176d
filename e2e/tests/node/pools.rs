//! Pools on a real node.

use vmpool_e2e::smoke;

use crate::stage::among_users;

pub(crate) fn the_core_scenarios_pass_on_a_real_node() {
    among_users(async |stage| {
        let stories = futures::try_join!(
            stage.visit("a pool converges", async |world| Ok(smoke::a_pool_converges(world).await?)),
            stage.visit("an Explicit pool is kept", async |world| Ok(smoke::explicit_is_kept(world).await?)),
            stage.visit("targeted removal removes the named machines", async |world| Ok(
                smoke::targeted_removal(world).await?
            )),
        );
        stories.map(drop)
    });
}
